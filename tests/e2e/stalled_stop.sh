#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Stopping with a stalled disk: SIGTERM ends the daemon within --stop-timeout, a second signal at
# once; what was not done is answered EIO and the exit status is 1. A stop also ends a store that waits.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
start_stall slow $((64 << 20))

load_and_stall() {
  stall slow stall read write >/dev/null
  (cd "$work" && exec fio --name=async --filename="$dir/dev/stuck" --direct=1 --ioengine=libaio \
    --iodepth=200 --rw=randread --bs=4k --size=64m --number_ios=200 --output=/dev/null) \
    2>/dev/null &
  load=$!
  running+=("$load")
  check "all tags are taken" wait_for 20 field_is stuck 9 128
  "$probe" write "$(queue stuck nr_requests)" 64 >"$work/store" &
  store=$!
  running+=("$store")
}

seconds_now() { echo $((${EPOCHREALTIME/./} / 1000000)); }

start_elevd --disk stuck="$work/slow",scheduler=none --disk other=ram:8M --stop-timeout 3s
load_and_stall
begin=$(seconds_now)
stop_elevd TERM 20
took=$(($(seconds_now) - begin))
compare "seconds until the end" $took -le 10
equal "exit status" 1 "$elevd_status"
check "the load ends" wait_for 20 gone "$load"
check "the store ends" wait_for 5 gone "$store"
matches "the store" '^(EINTR|ENODEV|ENOTCONN|ECONNABORTED|EIO)$' "$(<"$work/store")"
equal "mounts left" "" "$(mounts_below "$dir")"
stall slow release all >/dev/null

# A second signal does not wait for the time limit.
start_elevd --disk stuck="$work/slow",scheduler=none --stop-timeout 120s
load_and_stall
kill -TERM "$elevd_pid"
stop_seen() { ! all_mounted "$dir" stuck || grep -qi stop "$log"; }
check "the stop has begun" wait_for 20 stop_seen
begin=$(seconds_now)
stop_elevd TERM 20
compare "seconds until the end" $(($(seconds_now) - begin)) -le 10
equal "exit status" 1 "$elevd_status"
check "the load ends" wait_for 20 gone "$load"
equal "mounts left" "" "$(mounts_below "$dir")"
stall slow release all >/dev/null

# And the disk can be used again.
start_elevd --disk stuck="$work/slow",scheduler=none
probes "ok 4096" put "$dir/dev/stuck" 0 4096 0 1
probes "ok 4096" get "$dir/dev/stuck" 0 4096 0 1
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
