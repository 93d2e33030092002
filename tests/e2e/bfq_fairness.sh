#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bfq, live: readers of one slow disk share it by their levels, the real-time class takes it all.
# docs/spec/bfq.md section 21, T1 and T14; section 22 has what to take care of.
. "$(dirname "$0")/lib.sh"
need_fuse
need_root  # the real-time class
need fio
start_elevd --disk \
  d0=null:8G,model=seek,model_sequential=200us,model_random=1ms,queue_depth=32,scheduler=bfq

# Two sequential readers, eight outstanding each. Sets kib: what each one read in the same seconds.
readers() {  # CLASS/LEVEL CLASS/LEVEL
  local job=$work/readers.fio number=0 priority
  {
    printf '[global]\nfilename=%s\nrw=read\nbs=128k\nioengine=libaio\niodepth=8\ndirect=1\n' "$dir/dev/d0"
    printf 'size=1g\ntime_based\nruntime=4\n'
    for priority in "$@"; do
      number=$((number + 1))
      printf '[reader%s]\noffset=%sg\nprioclass=%s\nprio=%s\n' \
        "$number" "$((2 * number))" "${priority%/*}" "${priority#*/}"
    done
  } >"$job"
  check "fio" run_fio 60 --output-format=terse "$job"
  mapfile -t kib < <(awk -F';' '/;reader[0-9];/ { print $6 }' "$work/fio.out")
  equal "jobs" 2 "${#kib[@]}"
}

accept "$(queue d0 iosched/low_latency)" 0 0
accept "$(queue d0 iosched/strict_guarantees)" 1 1
accept "$(queue d0 iosched/max_budget)" 2048 2048

shares() {  # LEVEL LEVEL RATIO: the first reads RATIO times what the second does, within 5 %
  readers "2/$1" "2/$2"
  local thousandths=$((1000 * kib[0] / kib[1]))
  echo "levels $1 and $2: ${kib[*]} KiB, ratio $thousandths / 1000"
  compare "levels $1 and $2, from below" "$thousandths" -ge $((950 * $3))
  compare "levels $1 and $2, from above" "$thousandths" -le $((1050 * $3))
}
shares 0 4 2
shares 3 7 5

readers 1/4 2/4
echo "real-time and best effort: ${kib[*]} KiB"
compare "the best-effort reader" "${kib[1]}" -lt $((kib[0] / 200))

stop_elevd
equal "exit status" 0 "$elevd_status"
finish
