#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The debug file `device` of a disk with a device model: a stall holds what is dispatched, releases
# complete the oldest, the queue runs after each, and no worker sleeps over one.
# docs/spec/scenario.md section 2, docs/architecture.md "Device models".
. "$(dirname "$0")/lib.sh"
need_fuse
# Nothing here ends by being served: a request takes an hour.
start_elevd --disk slow=ram:16M,model=delay,model_service=1h,queue_depth=4,nr_requests=64 \
  --disk head=ram:16M,model=seek --disk plain=ram:16M --stop-timeout 3s
debug=$dir/sys/kernel/debug/block
device=$debug/slow/device

check_not "a disk without a model has none" test -e "$debug/plain/device"
matches "mode" "^100600 1 4096 " "$("$probe" stat "$device")"
equal "at the start" $'stalled=0\nat_device=0' "$(<"$device")"
equal "a seek model" $'stalled=0\nat_device=0' "$(<"$debug/head/device")"

refuse EINVAL "$device" "release 1"
refuse EINVAL "$device" "release all"
accept "$device" "stall\n"
for text in go "stall now" " stall" release "release " "release x" "release 0" "release -1" "release 1 "; do
  refuse EINVAL "$device" "$text"
done
equal "stalled" $'stalled=1\nat_device=0' "$(<"$device")"

# Ten readers, each of a block of its own; one after the other, so that their order is known.
readers=()
read_block() {  # NUMBER
  "$probe" is-zero "$dir/dev/slow" $(($1 * 65536)) 4096 >"$work/reader.$1" &
  readers[$1]=$!
  running+=($!)
}
at_device() { [[ $(tail -n 1 "$device") == "at_device=$1" ]]; }
for ((n = 0; n < 10; n++)); do
  read_block $n
  check "reader $n waits" wait_for 10 field_is slow 9 $((n + 1))
done
check "the device takes its depth" wait_for 10 at_device 4
equal "handed to the device" "$(printf '%8u %8u' 4 0)" "$(<"$tree/slow/inflight")"
equal "one is looked ahead, the scheduler has the rest" 5 \
  "$(wc -l <"$debug/slow/sched/read1_fifo_list")"

# The oldest first. Its place is taken by another: the queue ran.
accept "$device" "release 1"
check "the first reader ends" wait_for 10 gone "${readers[0]}"
check "nine are left" wait_for 10 field_is slow 9 9
check "the device is full again" wait_for 10 at_device 4
for ((n = 1; n < 10; n++)); do check "reader $n waits on" alive "${readers[$n]}"; done
# More than are at the device: six, two of which it gets only now.
accept "$device" "release 6"
for ((n = 1; n < 7; n++)); do check "reader $n ends" wait_for 10 gone "${readers[$n]}"; done
check "three are left" wait_for 10 field_is slow 9 3
for ((n = 7; n < 10; n++)); do check "reader $n waits on" alive "${readers[$n]}"; done
check "three at the device" at_device 3

accept "$device" "release all"
for ((n = 7; n < 10; n++)); do check "reader $n ends" wait_for 10 gone "${readers[$n]}"; done
equal "the answers" "$(printf 'zero\n%.0s' {1..10})" "$(cat "$work"/reader.*)"
equal "the stall is over" $'stalled=0\nat_device=0' "$(<"$device")"
check "nothing in flight" wait_for 5 field_is slow 9 0

# A tunable that allows a dispatch is followed by one: a reader without priority waits for one with it
# (for ten seconds, if nobody has the queue run).
queued_is() { [[ $(<"$debug/slow/sched/queued") == "$1" ]]; }
if ((EUID == 0)) && command -v ionice >/dev/null; then
  accept "$device" stall
  ionice -c 1 "$probe" is-zero "$dir/dev/slow" 0 4096 >"$work/first" &
  running+=($!)
  check "the first reader is at the device" wait_for 10 at_device 1
  read_block 1
  check "the second one is queued" wait_for 10 queued_is "1 1 0"
  check "it is held back" at_device 1
  accept "$debug/slow/state" run
  check "a run of the queue changes nothing" at_device 1
  accept "$(queue slow iosched/prio_aging_expire)" 0 0
  check "it leaves" wait_for 5 at_device 2
  accept "$device" "release all"
  check "it ends" wait_for 10 gone "${readers[1]}"
  check "nothing in flight" wait_for 5 field_is slow 9 0
fi

# The other disks do not care.
accept "$device" stall
probes "ok 4096" put "$dir/dev/head" 0 4096 0 1
probes "ok 4096" get "$dir/dev/head" 0 4096 0 1

# A stop does not wait for a stalled device longer than for any other.
read_block 0
check "the reader waits" wait_for 10 at_device 1
stop_elevd TERM 20
equal "exit status" 1 "$elevd_status"
check "the reader ends" wait_for 10 gone "${readers[0]}"
finish
