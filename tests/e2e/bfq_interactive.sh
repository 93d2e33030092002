#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bfq, live: a reader that comes now and then beside eight heavy writers is served soon with low_latency, late
# without. docs/spec/bfq.md sections 9 and 21, T24; simulated: tests/scenarios/bfq_eight_writers*.scn.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
# Times that the delays of a busy machine are small beside. One request at the device, where bfq has no say
# any more, and more tags than the writers have requests: section 22.
start_elevd --disk \
  d0=null:16G,model=seek,model_sequential=8ms,model_random=24ms,queue_depth=1,nr_requests=256,rotational=1,scheduler=bfq
# A whole budget at that speed takes half a second; slots of 124 ms would end before.
accept "$(queue d0 iosched/timeout_sync)" 600 600

job=$work/writers.fio
{
  printf '[global]\nfilename=%s\nioengine=libaio\ndirect=1\nsize=512m\ntime_based\n' "$dir/dev/d0"
  printf 'rw=write\nbs=128k\niodepth=8\nruntime=100\n'
  for number in 0 1 2 3 4 5 6 7; do printf '[writer%s]\noffset=%sg\n' "$number" "$number"; done
} >"$job"
# They begin before there is anything to raise them.
accept "$(queue d0 iosched/low_latency)" 0 0
(cd "$work" && exec fio --output=/dev/null "$job") &
writers=$!
running+=("$writers")
written() { (($(stat_field d0 7) >= $1)); }
check "every writer gets two whole budgets" wait_for 30 written $((2 * 8 * 16384))

# Sets p99, in microseconds. Who pauses for longer than three times slice_idle does not get the rest of
# its last budget at once (section 6).
interactive() {  # LOW_LATENCY SECONDS
  accept "$(queue d0 iosched/low_latency)" "$1" "$1"
  check "the reader" run_fio 60 --output-format=terse --name=reader --filename="$dir/dev/d0" --rw=read --bs=64k \
    --ioengine=libaio --direct=1 --iodepth=1 --thinktime=30000 --offset=12g --size=512m --time_based --runtime="$2"
  p99=$(fio_reads 99)
  matches "the 99th percentile of the reader" '^[0-9]+$' "$p99"
}
interactive 1 8
raised=$p99
interactive 0 4
echo "99th percentile beside eight writers: $raised us with low_latency, $p99 us without"
# 13.6 ms in the table, and 14 in the scenario of a device eight times as fast, tests/scenarios/bfq_t24.scn.
compare "with low_latency" "$raised" -le $((8 * 13600))
compare "without low_latency" "$p99" -ge $((3 * raised))

check "the writers are at work to the end" alive "$writers"
end_process "$writers" 10
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
