#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 1 MiB reads with max_sectors_kb 128 are 8 requests each, counted by stat. docs/spec/plug-and-merge.md
# section 7.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
start_elevd --disk d0=ram:64M,scheduler=none

requests() {  # FIELD EXPECTED WHAT fio-arguments...
  local field=$1 expected=$2 what=$3 before
  shift 3
  before=$(stat_field d0 "$field")
  check "$what: fio" run_fio 60 --name=split --filename="$dir/dev/d0" --direct=1 --size=64m "$@"
  equal "$what: requests" "$expected" $(($(stat_field d0 "$field") - before))
}

accept "$(queue d0 max_sectors_kb)" 128 128
for engine in psync libaio io_uring; do
  requests 1 512 "64 reads of 1 MiB, $engine" --ioengine=$engine --rw=read --bs=1m
done
requests 1 512 "random reads" --ioengine=libaio --iodepth=4 --rw=randread --bs=1m
requests 5 512 "writes" --ioengine=libaio --iodepth=1 --rw=write --bs=1m
accept "$(queue d0 max_sectors_kb)" 64 64
requests 1 1024 "64 KiB pieces" --ioengine=psync --rw=read --bs=1m
accept "$(queue d0 max_sectors_kb)" 0 1280
# whole again: the front end sends 512 KiB, over io_uring 128; two of them could merge
pieces=2
[[ $(transport_of d0) == uring ]] && pieces=8
accept "$(queue d0 nomerges)" 2 2
requests 1 $((64 * pieces)) "no split" --ioengine=psync --rw=read --bs=1m

before=$(stat_field d0 3)
requests 1 $((32 * pieces)) "512 KiB" --ioengine=psync --rw=read --bs=512k --size=32m
equal "sectors" 65536 $(($(stat_field d0 3) - before))
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
