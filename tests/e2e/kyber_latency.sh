#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kyber, live: beside writers that keep the device full it holds the latency of a reader at its target,
# as it lets fewer writes to the device; none and mq-deadline let all of them, and a read waits there.
# docs/spec/kyber.md section 5.3: nine of ten is what kyber itself goes by; simulated: tests/scenarios/read_latency_*.scn.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
# 25 000 requests a second; 64 writes outstanding take 2.6 ms each, a quarter of what kyber allows them, and a read
# behind them 2.9 ms. With half as many at the device a read takes 1.6 ms.
start_elevd --disk \
  d0=null:1G,model=delay,model_service=320us,model_parallel=8,queue_depth=128

# Sets p50 and p90 of a reader, in microseconds. Another one begins with the writers: kyber learns from it.
reader() {  # SCHEDULER
  local job=$work/reader.fio number
  accept "$(queue d0 scheduler)" "$1"
  {
    printf '[global]\nfilename=%s\nioengine=libaio\ndirect=1\nbs=4k\nsize=1g\nnorandommap\ntime_based\n' \
      "$dir/dev/d0"
    for number in 1 2; do printf '[writer%s]\nrw=randwrite\niodepth=32\nruntime=10\n' "$number"; done
    printf '[early]\nrw=randread\niodepth=1\nruntime=10\n'
    printf '[reader]\nrw=randread\niodepth=1\nstartdelay=7\nruntime=3\n'
  } >"$job"
  check "fio" run_fio 60 --output-format=terse "$job"
  read -r p50 p90 < <(awk -F';' '/;reader;/ {
    for (i = 1; i < 40; ++i) {
      if ($i ~ /^50\.000000%=/ && !a) a = substr($i, 12)
      if ($i ~ /^90\.000000%=/ && !b) b = substr($i, 12)
    }
    print a, b }' "$work/fio.out")
  matches "the percentiles under $1" '^[0-9]+ [0-9]+$' "$p50 $p90"
  echo "$1: the reader's 50th and 90th percentile: $p50 and $p90 us"
}

target=$((2000000 / 1000))  # us: read_lat_nsec of a fresh kyber
reader kyber
equal "the target" 2000000 "$(<"$(queue d0 iosched/read_lat_nsec)")"
compare "nine of ten reads under kyber" "$p90" -le "$target"
for scheduler in mq-deadline none; do
  reader "$scheduler"
  compare "half the reads under $scheduler" "$p50" -gt "$target"
done

stop_elevd
equal "exit status" 0 "$elevd_status"
finish
