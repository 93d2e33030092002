#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No allocation per I/O after warm-up: thousands of requests cost the daemon no more calls of malloc than
# a few. What opening the file costs, by libfuse, is the same for both.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
if ldd "$ELEVD_BIN/elevd" | grep -q 'lib[at]san'; then skip "a sanitizer allocates by itself"; fi
truncate -s 256M "$work/image"
elevd_environment=(LD_PRELOAD="$ELEVD_HELPERS/count_allocations.so" COUNT_ALLOCATIONS="$work/allocations")
start_elevd --disk file="$work/image" --disk ram=ram:256M

allocations() { "$probe" progress "$work/allocations"; }
compare "allocations of the start" "$(allocations)" -ge 100

# One pass over the file: fio opens it anew for each.
load() {  # DISK ORDER BLOCK REQUESTS: sets `cost` to the allocations of the daemon meanwhile
  local before
  before=$(allocations)
  check "fio $*" run_fio 100 --name=load --filename="$dir/dev/$1" --rw="$2" --bs="$3" --size=256m --number_ios="$4" \
    --norandommap --ioengine=libaio --iodepth=32 --direct=1 --thread
  cost=$(($(allocations) - before))
}

for disk in ram file; do
  for scheduler in none mq-deadline kyber; do
    accept "$(queue "$disk" scheduler)" "$scheduler"
    load "$disk" randrw 4k 8000  # warm-up
    kinds=("randread 4k 8000" "randwrite 4k 8000")
    [[ $scheduler == none ]] && kinds+=("read 1m 256" "write 1m 256")
    for kind in "${kinds[@]}"; do
      read -r order block many <<<"$kind"
      load "$disk" "$order" "$block" 8
      few=$cost
      load "$disk" "$order" "$block" "$many"
      compare "allocations for $many requests instead of 8, $disk, $scheduler, $order, $block" "$cost" -le $((few + 8))
    done
  done
done
# It is the daemon that is counted: an open costs something.
compare "allocations for an open" "$few" -ge 1
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
