#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two disks of one daemon at once, each with its own data: nothing ends up on the other.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
make_image "$work/image" 64
start_elevd --disk d0="$work/image",scheduler=none --disk d1=ram:64M,scheduler=none

for engine in libaio io_uring psync; do
  depth=$([[ $engine == psync ]] && echo 1 || echo 16)
  for size in 4k 64k 1m; do
    for order in write randwrite; do
      per_job=$([[ $size == 4k ]] && echo 4m || echo 16m)
      {
        printf '[global]\nioengine=%s\ndirect=1\nbs=%s\nrw=%s\niodepth=%s\n' \
          "$engine" "$size" "$order" "$depth"
        printf 'size=%s\noffset_increment=%s\nverify=crc32c\nverify_fatal=1\nnumjobs=4\n' \
          "$per_job" "$per_job"
        ((depth > 1)) && echo serialize_overlap=1
        printf '[d0]\nfilename=%s\n[d1]\nfilename=%s\n' "$dir/dev/d0" "$dir/dev/d1"
      } >"$work/two.fio"
      check "$engine $size $order on two disks" run_fio 60 "$work/two.fio"
    done
  done
done
equal "in flight on d0" 0 "$(stat_field d0 9)"
equal "in flight on d1" 0 "$(stat_field d1 9)"

# The same places of both disks, different contents.
probes "ok 1048576" put "$dir/dev/d0" 0 1048576 0 1
probes "ok 1048576" put "$dir/dev/d1" 0 1048576 0 2
probes "ok 1048576" get "$dir/dev/d0" 0 1048576 0 1
probes "ok 1048576" get "$dir/dev/d1" 0 1048576 0 2
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
