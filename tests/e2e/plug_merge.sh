#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The burst is the plug: 4 KiB sequential writes, submitted 32 at a time, become at most a quarter as
# many requests; with nomerges 2 exactly as many as there are bios. docs/spec/plug-and-merge.md section 3.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
truncate -s 32M "$work/image"
# Several workers share a descriptor: a stream that memory answers at once is dealt out among them, and
# bios that lie next to each other meet in no plug. One worker sees the burst as it was submitted.
start_elevd --workers 1 --disk d0="$work/image",scheduler=none --disk d1=ram:32M,scheduler=none
bios=8192

write_all() {  # DISK
  run_fio 60 --name=seq --filename="$dir/dev/$1" --ioengine=libaio --direct=1 --rw=write --bs=4k \
    --size=32m --iodepth=32 --iodepth_batch_submit=32 --iodepth_batch_complete_min=32
}

for disk in d0 d1; do
  for nomerges in 0 1; do
    accept "$(queue $disk nomerges)" $nomerges $nomerges
    read -r -a before <"$tree/$disk/stat"
    check "fio" write_all $disk
    read -r -a after <"$tree/$disk/stat"
    requests=$((after[4] - before[4]))
    merges=$((after[5] - before[5]))
    echo "$disk, nomerges $nomerges: $requests requests for $bios bios"
    equal "requests and merges" $bios $((requests + merges))
    equal "sectors" $((bios * 8)) $((after[6] - before[6]))
    compare "at most a quarter as many requests" $((requests * 4)) -le $bios
  done
  accept "$(queue $disk nomerges)" 2 2
  read -r -a before <"$tree/$disk/stat"
  check "fio" write_all $disk
  read -r -a after <"$tree/$disk/stat"
  equal "requests with nomerges 2" $bios $((after[4] - before[4]))
  equal "merges with nomerges 2" 0 $((after[5] - before[5]))
  accept "$(queue $disk nomerges)" 0 0
done

# Merged data is the data.
check "fio verifies" run_fio 60 --name=seq --filename="$dir/dev/d0" --ioengine=libaio --direct=1 \
  --rw=write --bs=4k --size=32m --iodepth=32 --iodepth_batch_submit=32 \
  --iodepth_batch_complete_min=32 --serialize_overlap=1 --verify=crc32c
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
