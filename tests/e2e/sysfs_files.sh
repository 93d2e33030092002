#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How the files of the tree behave, whatever is in them: docs/spec/sysfs.md section 1, row by row,
# and the presence, mode and value of the attributes of sections 3 and 6.
. "$(dirname "$0")/lib.sh"
need_fuse

start_elevd --disk d0=ram:64M,scheduler=none --disk d1=ram:8M,scheduler=none
rw=$(queue d0 nr_requests)
ro=$(queue d0 max_hw_sectors_kb)
uid=$(id -u)

# mode, owner, kind, links, size, blocks, block size
probes "100644 1 4096 0 4096 $uid" stat "$rw"
probes "100444 1 4096 0 4096 $uid" stat "$ro"
probes "100444 1 4096 0 4096 $uid" stat "$tree/d0/stat"
for folder in "$dir/sys" "$dir/sys/block" "$tree/d0" "$tree/d0/queue"; do
  matches "mode of $folder" '^040755 [0-9]+ 0 ' "$("$probe" stat "$folder")"
done

# open for writing of a 0444 file: EACCES, also for root
for flags in w rw w,trunc rw,trunc w,creat w,append; do
  probes "EACCES" open "$ro" "$flags"
done
probes "ok" open "$ro" r

# O_TRUNC, O_APPEND, truncate on a writable file: accepted, no effect
for flags in w,trunc w,append rw,trunc w,creat; do
  probes "ok" open "$rw" "$flags"
done
probes "ok" truncate "$rw" 0
probes "ok" truncate "$rw" 100
equal "nr_requests" 128 "$(<"$rw")"
probes "ok 3" write "$rw" '64\n' w,append
equal "nr_requests" 64 "$(<"$rw")"
probes "ok 3" write "$rw" 128 w,trunc
probes "100644 1 4096 0 4096 $uid" stat "$rw"

# names cannot be made or removed
probes "EACCES" open "$tree/d0/queue/new" w,creat
probes "EPERM" mkdir "$tree/d0/queue/new"
probes "EPERM" unlink "$rw"
probes "EPERM" rename "$rw" "$tree/d0/queue/new"
probes "EPERM" symlink target "$tree/d0/queue/new"
probes "EPERM" rmdir "$tree/d0/queue"
probes "EPERM" mkdir "$dir/sys/block/d9"
probes "ENOENT" open "$tree/d0/queue/absent" r
probes "ENOENT" open "$tree/d9/stat" r
probes "ENOTDIR" open "$rw/below" r
probes "EISDIR" open "$tree/d0/queue" w
matches "setxattr" '^(EOPNOTSUPP|ENOTSUP)$' "$("$probe" setxattr "$rw" user.a b)"
if ((EUID == 0)); then
  probes "ok" chmod "$rw" 0600
  matches "mode after chmod" '^100600 ' "$("$probe" stat "$rw")"
  probes "ok" chmod "$rw" 0644
fi

# read: a snapshot of the first read; short reads go on; past the end 0 bytes; seek works
probes '12|8\n|' read "$rw" 2 100 100
probes '8\n' pread "$rw" 2 100
probes '' pread "$rw" 4 100
probes '' pread "$rw" 4096 100
probes '128\n|64\n' snapshot "$rw" '64'
accept "$rw" 128 128

# write: every call is a store of its own, the offset is ignored
probes "ok 2" pwrite "$rw" 3 '32'
equal "after pwrite at 3" 32 "$(<"$rw")"
probes "ok ok EINVAL" write-bytes "$rw" '64\n'
equal "after 6, then 4 (raised to the least)" 4 "$(<"$rw")"
probes "ok 3" writev "$rw" 6 4 '\n'
equal "writev is one store" 64 "$(<"$rw")"
probes "ok 0" write "$rw" ''
equal "nothing written" 64 "$(<"$rw")"
: >"$rw"
check "echo -n" bash -c "echo -n > '$rw'"
equal "nothing written" 64 "$(<"$rw")"

# NUL ends the text, the full length is returned
probes "ok 6" write "$rw" '32\0abc'
equal "text before the NUL" 32 "$(<"$rw")"
# more than 4096 bytes: only these are passed and counted; leading zeros are digits
zeros=$(printf '0%.0s' {1..4090})
probes "ok 4096" write "$rw" "${zeros}000064junk"
equal "the first 4096 bytes" 64 "$(<"$rw")"
accept "$rw" 128 128

# a refused store changes nothing
refuse EINVAL "$rw" junk

# every regular file of the tree can be read and ends in one newline (or is empty)
while IFS= read -r file; do
  [[ -r $file ]] || continue
  text=$(timeout 5 "$probe" read "$file" 65536)
  matches "${file#"$dir"/} ends in a newline" '^(|.*\\n)$' "$text"
done < <(find "$dir/sys" -type f -perm -0444)

# values of a fresh disk: NAME MODE VALUE
while read -r name mode value; do
  matches "mode of $name" "^100$mode " "$("$probe" stat "$tree/d0/$name")"
  [[ $value == - ]] || equal "$name" "$value" "$(<"$tree/d0/$name")"
done <<END
queue/scheduler 644 -
queue/nr_requests 644 128
queue/async_depth 644 128
queue/nomerges 644 0
queue/max_sectors_kb 644 1280
queue/max_hw_sectors_kb 444 1280
queue/max_segments 444 128
queue/max_segment_size 444 65536
queue/max_discard_segments 444 1
queue/discard_granularity 444 -
queue/discard_max_bytes 644 -
queue/discard_max_hw_bytes 444 -
queue/write_zeroes_max_bytes 444 -
queue/logical_block_size 444 512
queue/hw_sector_size 444 512
queue/physical_block_size 444 -
queue/minimum_io_size 444 -
queue/optimal_io_size 444 -
queue/chunk_sectors 444 0
queue/write_cache 644 write back
queue/fua 444 0
queue/rotational 644 -
queue/iostats 644 1
queue/rq_affinity 644 1
queue/virt_boundary_mask 444 0
queue/dax 444 0
queue/zoned 444 none
queue/atomic_write_max_bytes 444 0
queue/max_integrity_segments 444 0
queue/discard_zeroes_data 444 0
stat 444 -
size 444 131072
ro 444 0
removable 444 0
hidden 444 0
alignment_offset 444 0
discard_alignment 444 0
END
equal "inflight" "       0        0" "$(<"$tree/d0/inflight")"
matches "stat: 17 columns of at least 8" '^( *[0-9]+){17}$' "$(<"$tree/d0/stat")"
equal "bytes of a fresh stat" 153 "$(wc -c <"$tree/d0/stat")"
check_not "a disk without scheduler has no iosched" test -e "$tree/d0/queue/iosched"
equal "disks" "d0 d1" "$(echo "$tree"/* | sed "s,$tree/,,g")"

# the two disks are apart
accept "$(queue d1 nr_requests)" 16 16
equal "nr_requests of d0" 128 "$(<"$rw")"

stop_elevd
equal "exit status" 0 "$elevd_status"
finish
