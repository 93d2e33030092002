#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Writers at any offset and of any length beside aligned ones, on the same blocks: none loses what only
# it writes. On direct I/O they read, modify and write in range mode, which goes off again when it is
# not needed any more. docs/architecture.md, "Concurrency rules", rule 14.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
truncate -s 64M "$work/image" "$work/large-blocks"
disks=(file large ram)
arguments=(--disk file="$work/image" --disk "large=$work/large-blocks,logical_block_size=4096"
  --disk "ram=ram:64M,scheduler=none")
if mount_fs memory tmpfs size=80M; then
  truncate -s 64M "$work/memory/image"
  disks+=(tmpfs)
  arguments+=(--disk tmpfs="$work/memory/image")
fi
# No direct I/O: the page cache takes the bytes as they are. One request at a time, so that others wait
# and are merged.
cached=
if mount_fs plain ramfs; then
  truncate -s 8M "$work/plain/image"
  cached=cached
  arguments+=(--disk "cached=$work/plain/image,queue_depth=1,nr_requests=64,model=delay,model_service=5ms,model_parallel=1")
fi
start_elevd "${arguments[@]}"

# Four writers of three blocks: the first and the last write whole blocks, the others odd ranges that
# begin or end inside those. What nobody else writes must be there when it is written again.
#
#   block         |0               |1               |2               |
#   aligned       AAAAAAAAAAAAAAAAA                  DDDDDDDDDDDDDDDDD
#   unaligned          BBBBBBBBBBBBBBBBBBCCCCCCCCCCCCCCCCCC
weave() {  # DISK BLOCK PERIODS ROUNDS
  local block=$2 writers=() writer
  local period=$((3 * block)) b=100 c=$((block + 101)) d=$((2 * block)) end=$((2 * block + 77))
  start_weaver "$@" A 0 "$block" 0 "$b"
  start_weaver "$@" B "$b" $((c - b)) "$block" $((c - block))
  start_weaver "$@" C "$c" $((end - c)) "$c" $((d - c))
  start_weaver "$@" D "$d" "$block" "$end" $((3 * block - end))
  for writer in "${writers[@]}"; do wait "$writer"; done
  for writer in A B C D; do
    equal "writer $writer of $1, blocks of $block" ok "$(<"$work/weave.$writer")"
  done
}

start_weaver() {  # DISK BLOCK PERIODS ROUNDS NAME FROM SIZE OWN OWN-SIZE
  timeout 120 "$probe" weave "$dir/dev/$1" "$3" "$period" "${@:6:4}" "$4" >"$work/weave.$5" 2>&1 &
  writers+=($!)
  running+=($!)
}

mode_is() {  # DISK on|off: what the log said last
  [[ $(grep -o "$1: range mode [a-z]*" "$log" | tail -n 1) == "$1: range mode $2" ]]
}

# Whole blocks leave range mode off.
for disk in "${disks[@]}"; do
  probes "ok 65536" put "$dir/dev/$disk" 4096 65536 0 1
done
check_not "range mode before there was an unaligned write" grep -q "range mode" "$log"

rounds=150 size=512
if ((short)); then rounds=40 size=128; fi
weave file 512 8 "$rounds"
check "range mode goes on for an O_DIRECT file" mode_is file on
weave large 4096 8 "$rounds"
check "range mode goes on with blocks of 4096" mode_is large on

# Odd sizes and odd offsets, adjacent jobs, and an aligned job beside them; nobody shares bytes.
{
  cat <<END
[global]
direct=1
verify=crc32c
verify_fatal=1
do_verify=1
serialize_overlap=1
END
  for disk in "${disks[@]}"; do
    odd=$((size * 513))
    cat <<END
[$disk-random-513]
stonewall
filename=$dir/dev/$disk
rw=randwrite
bs=513
numjobs=3
offset=777
offset_increment=$odd
size=$odd
ioengine=libaio
iodepth=8
[$disk-split]
filename=$dir/dev/$disk
rw=write
bssplit=257/30:771/20:1285/20:4369/20:70161/10
numjobs=2
offset=20m
offset_increment=699811
size=699811
ioengine=libaio
iodepth=8
[$disk-aligned]
filename=$dir/dev/$disk
rw=randwrite
bs=4k
offset=$(((777 + 3 * odd + 4095) / 4096 * 4096))
size=1m
ioengine=io_uring
iodepth=16
END
  done
} >"$work/odd.fio"
if [[ -n $cached ]]; then
  # 300 bytes of each block: the blocks lie next to each other, the bytes do not.
  cat >>"$work/odd.fio" <<END
[cached-parts]
stonewall
filename=$dir/dev/cached
rw=write:212
bs=300
size=64k
ioengine=libaio
iodepth=32
[cached-parts-alone]
stonewall
filename=$dir/dev/cached
rw=write:212
bs=300
size=64k
verify_only=1
ioengine=psync
END
fi
unaligned_ended=${EPOCHREALTIME/./}
check "fio, odd sizes" run_fio 120 "$work/odd.fio"
if [[ -n $cached ]]; then
  compare "reads merged without direct I/O" "$(stat_field cached 2)" -ge 10
fi

# The others need no range mode, their blocks are not read before a write.
for disk in "${disks[@]:2}"; do
  weave "$disk" 512 8 "$rounds"
  check_not "range mode of $disk" grep -q "$disk: range mode" "$log"
  before=$(stat_field "$disk" 1)
  probes "ok 1000" put "$dir/dev/$disk" 333 1000 0 7
  equal "reads for an unaligned write to $disk" "$before" "$(stat_field "$disk" 1)"
done

# Off again when there was no unaligned write for 10 s, and not earlier; aligned writes may go on.
probes "ok 65536" put "$dir/dev/file" 4096 65536 0 1
check "range mode of the file goes off" wait_for 20 mode_is file off
check "range mode with blocks of 4096 goes off" wait_for 5 mode_is large off
compare "microseconds until then" $((${EPOCHREALTIME/./} - unaligned_ended)) -ge 10000000
# And on again, without harm to what is there.
probes "ok 65536" get "$dir/dev/file" 4096 65536 0 1
probes "ok 1" put "$dir/dev/file" 5000 1 0 2
probes "ok 904" get "$dir/dev/file" 4096 904 0 1
probes "ok 1" get "$dir/dev/file" 5000 1 0 2
probes "ok 64631" get "$dir/dev/file" 5001 64631 0 1
check "range mode is on again" mode_is file on

stop_elevd
equal "exit status" 0 "$elevd_status"
finish
