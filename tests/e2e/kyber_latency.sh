#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kyber, live: beside writers that keep the device full it holds the latency of a reader at its target,
# as it lets fewer writes to the device; none and mq-deadline let all of them, and a read waits there.
# docs/spec/kyber.md section 5.3; simulated: tests/scenarios/read_latency_*.scn.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
# 800 requests a second. A read behind the 192 writes that are outstanding takes 250 ms, behind the eight that
# keep the device busy 20 ms: times that the delays of a busy machine are small beside.
start_elevd --disk \
  d0=null:1G,model=delay,model_service=10ms,model_parallel=8,queue_depth=256,nr_requests=256,scheduler=kyber
target=40000  # us
accept "$(queue d0 iosched/read_lat_nsec)" "${target}000" "${target}000"
# Far above what they take, 250 ms, so that they are good and give up three of four tokens at a time.
accept "$(queue d0 iosched/write_lat_nsec)" 5000000000 5000000000

tokens() { sed -n 's/^depth=//p' "$dir/sys/kernel/debug/block/d0/sched/write_tokens"; }
few_tokens() { (($(tokens) <= 8)); }
compare "tokens of the writers at first" "$(tokens)" -gt 8

load=$work/load.fio
{
  printf '[global]\nfilename=%s\nioengine=libaio\ndirect=1\nbs=4k\nsize=1g\nnorandommap\ntime_based\nruntime=100\n' \
    "$dir/dev/d0"
  for number in 1 2 3 4; do printf '[writer%s]\nrw=randwrite\niodepth=48\n' "$number"; done
  printf '[early]\nrw=randread\niodepth=1\n'  # kyber learns from it
} >"$load"
(cd "$work" && exec fio --output=/dev/null "$load") &
load=$!
running+=("$load")

reader() {  # SCHEDULER PERCENT SECONDS: sets latency, in microseconds, of so many percent of its reads
  check "the reader under $1" run_fio 60 --output-format=terse --name=reader --filename="$dir/dev/d0" --rw=randread \
    --bs=4k --ioengine=libaio --direct=1 --iodepth=1 --size=1g --norandommap --time_based --runtime="$3"
  latency=$(fio_reads "$2")
  matches "the latency of $2 % of the reads under $1" '^[0-9]+$' "$latency"
  echo "$1: $2 % of the reads within $latency us"
}

check "kyber takes tokens from the writers" wait_for 20 few_tokens
reader kyber 90 3
held=$latency
compare "nine of ten reads under kyber, what it goes by itself" "$held" -le "$target"
for scheduler in mq-deadline none; do
  accept "$(queue d0 scheduler)" "$scheduler"
  reader "$scheduler" 50 2
  compare "half the reads under $scheduler, and the target" "$latency" -gt "$target"
  compare "half the reads under $scheduler, and under kyber" "$latency" -ge $((3 * held))
done

check "the load is there to the end" alive "$load"
end_process "$load" 10
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
