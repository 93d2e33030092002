#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What people run on a disk: dd, cp, cmp, truncate, mkfs, and a file system on a loop device over it.
. "$(dirname "$0")/lib.sh"
need_fuse
need dd cp cmp
truncate -s 320M "$work/image"
start_elevd --disk file="$work/image" --disk ram=ram:320M
head -c 5000001 /dev/urandom >"$work/data"

for disk in file ram; do
  block=$dir/dev/$disk
  # dd truncates what looks like a regular file, unless told not to: nothing may be lost by that.
  check "$disk: dd" dd if="$work/data" of="$block" bs=64k conv=notrunc status=none
  check "$disk: cmp" cmp -n 5000001 "$work/data" "$block"
  check "$disk: dd with seek" dd if="$work/data" of="$block" bs=1M count=1 seek=40 status=none
  check "$disk: what lies before is still there" cmp -n 5000001 "$work/data" "$block"
  check "$disk: what was written is there" cmp -n 1048576 -i $((40 << 20)):0 "$block" "$work/data"
  check "$disk: odd block sizes" dd if="$work/data" of="$block" bs=1013 seek=7 conv=notrunc,fsync status=none
  check "$disk: odd block sizes, read back" cmp -n 5000001 -i 7091:0 "$block" "$work/data"
  check "$disk: cp onto it" cp "$work/data" "$block"
  check "$disk: cp from it" cp "$block" "$work/copy"
  equal "$disk: size of the copy" $((320 << 20)) "$(stat -c %s "$work/copy")"
  check "$disk: contents of the copy" cmp -n 5000001 "$work/copy" "$work/data"
  check "$disk: punch a hole" fallocate --punch-hole -o 12345 -l 1000000 "$block"
  check "$disk: the hole reads as zeroes" cmp -n 1000000 -i 12345:0 "$block" /dev/zero
  check "$disk: up to its edges" cmp -n 12345 "$work/data" "$block"
  check "$disk: from its edges" cmp -n 3000000 -i 1012345:1012345 "$work/data" "$block"
  rm -f "$work/copy"
done

if command -v qemu-img >/dev/null; then
  check "qemu-img convert -n" qemu-img convert -n -O raw "$work/data" "$dir/dev/file"
  check "what qemu-img wrote" cmp -n 5000001 "$work/data" "$dir/dev/file"
fi

for disk in file ram; do
  block=$dir/dev/$disk
  for kind in ext4 xfs; do
    command -v "mkfs.$kind" >/dev/null || { echo "SKIP: mkfs.$kind is missing"; continue; }
    force=-F && [[ $kind == xfs ]] && force=-f
    check "$disk: mkfs.$kind" "mkfs.$kind" $force "$block"
    if ((EUID != 0)) || [[ ! -e /dev/loop-control ]]; then
      echo "SKIP: no loop devices here"
      continue
    fi
    loop=$(losetup --find --show --direct-io=on "$block" 2>"$work/losetup") ||
      { echo "SKIP: losetup: $(<"$work/losetup")"; continue; }
    mkdir -p "$work/mnt"
    if mount "$loop" "$work/mnt"; then
      check "$disk: copy a tree onto $kind" cp -r /usr/include/linux "$work/mnt/"
      sync -f "$work/mnt"
      check "$disk: the tree on $kind" diff -r /usr/include/linux "$work/mnt/linux"
      check "$disk: umount $kind" umount "$work/mnt"
    else
      echo "SKIP: this kernel mounts no $kind"
    fi
    check "$disk: losetup -d" losetup -d "$loop"
    released() { ! losetup -j "$block" | grep -q .; }
    wait_for 10 released || fail "$disk: the loop device stays"
    if [[ $kind == ext4 ]]; then
      check "$disk: fsck of ext4" e2fsck -fn "$block"
    else
      check "$disk: check of xfs" xfs_repair -n -f "$block"
    fi
  done
done
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
