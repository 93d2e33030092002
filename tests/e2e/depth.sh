#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Depth really reaches the daemon: 64 asynchronous requests are 64 (12 with the kernel's default of
# max_background), 8 synchronous writers are 8 (1 without parallel direct writes). The backing holds
# every answer, so the numbers are exact. docs/spec/fuse.md section 13.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
start_stall slow $((64 << 20))
start_elevd --disk d0="$work/slow",scheduler=none,nomerges=2 --stop-timeout 5s

shows_depth() {  # WHAT NUMBER READS WRITES fio-arguments...
  local what=$1 number=$2 reads=$3 writes=$4
  shift 4
  stall slow stall read write >/dev/null
  (cd "$work" && exec fio --name=deep --filename="$dir/dev/d0" --direct=1 --output=/dev/null \
    --size=32m "$@") &
  running+=($!)
  if ! wait_for 20 field_is d0 9 "$number"; then
    fail "$what: $(stat_field d0 9) in flight, expected $number"
  fi
  checks=$((checks + 1))
  equal "$what: inflight" "$(printf '%8u %8u' "$reads" "$writes")" "$(<"$tree/d0/inflight")"
  stall slow release all >/dev/null
  check "$what: fio ends" wait_for 30 gone "${running[-1]}"
  check "$what: nothing in flight" wait_for 5 field_is d0 9 0
}

for engine in libaio io_uring; do
  shows_depth "$engine, 64 reads" 64 64 0 --ioengine=$engine --iodepth=64 --rw=randread --bs=4k \
    --number_ios=64
  shows_depth "$engine, 64 writes" 64 0 64 --ioengine=$engine --iodepth=64 --rw=randwrite --bs=4k \
    --number_ios=64
done
shows_depth "8 psync writers" 8 0 8 --ioengine=psync --numjobs=8 --rw=write --bs=4k --size=4m \
  --offset_increment=4m --number_ios=1
shows_depth "8 psync readers" 8 8 0 --ioengine=psync --numjobs=8 --rw=read --bs=4k --size=4m \
  --offset_increment=4m --number_ios=1

# Not O_DIRECT: as deep.
shows_depth "libaio, not direct" 64 64 0 --ioengine=libaio --iodepth=64 --rw=randread --bs=4k \
  --number_ios=64 --direct=0

stop_elevd
equal "exit status" 0 "$elevd_status"
finish
