#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fio writes and verifies with every scheduler and every engine, then while the scheduler is changed from
# each to each: what was written is read back, whoever ordered it. docs/spec/elevator-switch.md.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
make_image "$work/image" 32
start_elevd --disk d0="$work/image"
read -r -a schedulers < <(tr -d "[]" <"$(queue d0 scheduler)")
equal "the schedulers" "bfq kyber mq-deadline none" \
  "$(printf '%s\n' "${schedulers[@]}" | sort | tr '\n' ' ' | sed 's/ $//')"
megabytes=$((short ? 4 : 8))

verify() {  # ENGINE: two jobs write at random places in blocks of random sizes, then verify
  local depth=(--iodepth=1)
  # Two overlapping requests of one fio job in flight would make its own checksums wrong.
  [[ $1 == psync ]] || depth=(--iodepth=16 --serialize_overlap=1)
  run_fio 60 --name=all --filename="$dir/dev/d0" --ioengine="$1" "${depth[@]}" --direct=1 --numjobs=2 \
    --size="${megabytes}m" --offset_increment="${megabytes}m" --rw=randwrite --bsrange=4k-128k \
    --verify=crc32c --verify_fatal=1 --do_verify=1
}

for engine in psync libaio io_uring; do
  for scheduler in "${schedulers[@]}"; do
    accept "$(queue d0 scheduler)" "$scheduler"
    check "fio verifies, $scheduler, $engine" verify "$engine"
  done
done

# A walk over all twelve ordered pairs, which ends where it began.
order=(none mq-deadline none kyber none bfq mq-deadline kyber mq-deadline bfq kyber bfq none)
walks() {  # until the load has ended; a walk that was begun is finished
  local count=0 scheduler
  until [[ -e $work/enough ]] && ((count > 0)); do
    for scheduler in "${order[@]}"; do echo "$(queue d0 scheduler) $scheduler"; done >"$work/stores"
    "$probe" write-each <"$work/stores" >>"$work/answers" || return 1
    count=$((count + 1))
  done
  echo "$count walks"
}
for engine in psync libaio io_uring; do
  rm -f "$work/enough" "$work/answers"
  walks >"$work/walks" &
  walker=$!
  running+=("$walker")
  check "fio verifies, all of them in turn, $engine" verify "$engine"
  touch "$work/enough"
  check "the walk ends, $engine" wait_for 20 gone "$walker"
  matches "it went all the way, $engine" '^[1-9][0-9]* walks$' "$(<"$work/walks")"
  equal "and every store succeeded, $engine" ok "$(sort -u "$work/answers")"
done
equal "in flight afterwards" 0 "$(stat_field d0 9)"
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
