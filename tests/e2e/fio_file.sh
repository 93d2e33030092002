#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fio writes and verifies on a disk in a file: three engines, all sizes, orders and job counts.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
make_image "$work/image" 128
start_elevd --disk d0="$work/image",scheduler=none
for engine in libaio io_uring psync; do fio_matrix d0 "$engine"; done
equal "in flight afterwards" 0 "$(stat_field d0 9)"

# What was written is in the image, seen without elevd.
check "fio writes" run_fio 60 --name=kept --filename="$dir/dev/d0" --ioengine=libaio --iodepth=16 \
  --serialize_overlap=1 --direct=1 --size=32m --bs=8k --rw=randwrite --verify=crc32c --do_verify=0
stop_elevd
equal "exit status" 0 "$elevd_status"
check "fio verifies the image" run_fio 60 --name=kept --filename="$work/image" --ioengine=psync \
  --direct=1 --size=32m --bs=8k --rw=randwrite --verify=crc32c --verify_only
finish
