#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a block file does beside aligned reads and writes: any offset and length, the end of the disk,
# flags, fallocate, seek, read-only disks. docs/spec/fuse.md sections 4 and 11.
. "$(dirname "$0")/lib.sh"
need_fuse

size=$((16 << 20))
truncate -s "$size" "$work/image"
truncate -s "$size" "$work/locked"
start_elevd --disk ram=ram:16M --disk file="$work/image" --disk locked="$work/locked",read_only=true

for disk in ram file; do
  file=$dir/dev/$disk
  equal "size of $disk" "$size" "$(stat -c %s "$file")"
  probes "$size" device-size "$file"

  # any offset and length; neighbours stay
  probes "ok 65536" put "$file" 0 65536 0 1
  probes "ok 1" put "$file" 1000 1 0 2
  probes "ok 5000" put "$file" 30001 5000 3 2
  probes "ok 1000" get "$file" 0 1000 0 1
  probes "ok 1" get "$file" 1000 1 0 2
  probes "ok 29000" get "$file" 1001 29000 5 1
  probes "ok 5000" get "$file" 30001 5000 0 2
  probes "ok 30535" get "$file" 35001 30535 0 1

  # the end: short across it, nothing behind it, no growing
  probes "ok 512" put "$file" $((size - 512)) 4096 0 1
  probes "ok 512" get "$file" $((size - 512)) 4096 0 1
  probes "ok 100" get "$file" $((size - 100)) 4096 0 1
  probes "ENOSPC" put "$file" "$size" 512 0 1
  probes "ENOSPC" put "$file" $((size + 4096)) 512 0 1
  probes "ok 0" get "$file" "$size" 512 0 1
  probes "ok 0" get "$file" $((size * 2)) 512 0 1
  probes "ENOSPC" write "$file" x w,append
  probes "ok $size" seek "$file" end 0

  # truncating does nothing, growing is refused
  probes "ok" open "$file" w,trunc
  probes "ok" truncate "$file" 0
  probes "ok" truncate "$file" "$size"
  probes "EFBIG" truncate "$file" $((size + 1))
  equal "size of $disk" "$size" "$(stat -c %s "$file")"
  probes "ok 512" get "$file" $((size - 512)) 512 0 1
  check "dd with seek" dd if=/dev/zero of="$file" bs=4096 seek=100 count=1 status=none
  probes "ok 1000" get "$file" 0 1000 0 1

  # flush, discard, write zeroes
  probes "ok" fsync "$file"
  probes "ok 1048576" put "$file" 1048576 1048576 0 1
  probes "ok" fallocate "$file" punch 1048576 65536
  probes "zero" is-zero "$file" 1048576 65536
  probes "ok" fallocate "$file" zero 1179648 65536
  probes "zero" is-zero "$file" 1179648 65536
  probes "ok 65536" get "$file" 1114112 65536 0 1
  probes "ok" fallocate "$file" none 0 "$size"
  probes "ENOSPC" fallocate "$file" none 0 $((size + 1))
  probes "EOPNOTSUPP" fallocate "$file" collapse 0 4096
  probes "EOPNOTSUPP" fallocate "$file" insert 0 4096
  # The end: what lies behind it is not punched, and not zeroed either.
  probes "ok 4096" put "$file" $((size - 4096)) 4096 0 3
  probes "ok" fallocate "$file" punch "$size" 4096
  probes "ENOSPC" fallocate "$file" zero $((size - 2048)) 4096
  probes "ok 4096" get "$file" $((size - 4096)) 4096 0 3
  probes "ok" fallocate "$file" punch $((size - 2048)) 4096
  probes "zero" is-zero "$file" $((size - 2048)) 2048
  probes "ok 2048" get "$file" $((size - 4096)) 2048 0 3
  equal "size of $disk" "$size" "$(stat -c %s "$file")"
  compare "discards are counted" "$(stat_field "$disk" 12)" -ge 1

  # data and holes
  probes "ok" fallocate "$file" punch 0 "$size"
  probes "ENXIO" seek "$file" data 0
  probes "ok 0" seek "$file" hole 0
  probes "ok 65536" put "$file" 1048576 65536 0 1
  probes "ok 1048576" seek "$file" data 0
  probes "ok 1048600" seek "$file" data 1048600
  probes "ok 1114112" seek "$file" hole 1048576
  probes "ENXIO" seek "$file" data 1114112
  probes "ENXIO" seek "$file" data "$size"
  probes "ENXIO" seek "$file" hole "$size"
  probes "ok 65536" put "$file" $((size - 65536)) 65536 0 1
  probes "ok $((size - 65536))" seek "$file" data 1114112
  probes "ok $size" seek "$file" hole $((size - 65536))

  # ioctls: those whose number says how large the answer is
  if command -v blockdev >/dev/null; then
    equal "BLKGETSIZE64" "$size" "$(blockdev --getsize64 "$file")"
    equal "BLKBSZGET" "$(<"$tree/$disk/queue/logical_block_size")" "$(blockdev --getbsz "$file")"
    for option in --getss --getpbsz --getra --flushbufs --setro; do
      check_not "blockdev $option" blockdev $option "$file" 2>"$work/ioctl"
    done
  fi

  # a file system works on it
  if command -v mkfs.ext4 >/dev/null; then
    check "mkfs" mkfs.ext4 -q -F "$file"
    check "fsck" e2fsck -f -n "$file" >"$work/fsck" 2>&1
  fi
done

# a disk that is read-only
file=$dir/dev/locked
equal "ro" 1 "$(<"$tree/locked/ro")"
equal "ro" 0 "$(<"$tree/ram/ro")"
probes "EROFS" open "$file" w
probes "EROFS" open "$file" rw
probes "EROFS" open "$file" rw,trunc
probes "open EROFS" put "$file" 0 4096 0 1
probes "open EROFS" fallocate "$file" punch 0 4096
probes "ok" open "$file" r
probes "zero" is-zero "$file" 0 4096

# names in DIR/dev
equal "disks" "file locked ram" "$(find "$dir/dev" -type f -printf "%f\n" | sort | xargs)"

stop_elevd
equal "exit status" 0 "$elevd_status"
# what was written is in the image
check "the image has the file system" test -s "$work/image"
finish
