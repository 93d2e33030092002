#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kill -9: the files answer ENOTCONN, a restart in the same directory clears the dead mounts and
# works, and everything that was acknowledged is there. docs/spec/fuse.md section 12.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio

truncate -s 64M "$work/image"
start_elevd --disk d0="$work/image" --disk d1=ram:8M

check "fio writes" run_fio 60 --name=kept --filename="$dir/dev/d0" --ioengine=libaio --iodepth=8 \
  --serialize_overlap=1 --direct=1 --offset=32m --size=16m --bs=16k --rw=randwrite \
  --verify=crc32c --do_verify=0

# Killed in the middle of writing: what was answered counts.
"$probe" write-until-error "$dir/dev/d0" 8192 "$work/progress" >"$work/load" &
load=$!
running+=("$load")
enough() { (($("$probe" progress "$work/progress") >= 200)); }
wait_for 20 enough || die "the load does not proceed"
kill -KILL "$elevd_pid"
check "the daemon is gone" wait_for 10 gone "$elevd_pid"
check "the writer gets an error" wait_for 20 gone "$load"
# ECANCELED: over a ring, now and then.
matches "its error" '^[0-9]+ (ECONNABORTED|ENOTCONN|ECANCELED)$' "$(<"$work/load")"
answered=$("$probe" progress "$work/progress")

# The ring of the dead process holds its connections for a moment: who comes then is in flight, too.
answers_notconn() { [[ $(timeout 20 "$probe" open "$1" r) == ENOTCONN ]]; }
check "d0 is not connected" wait_for 20 answers_notconn "$dir/dev/d0"
check "d1 is not connected" wait_for 20 answers_notconn "$dir/dev/d1"
probes "ENOTCONN" open "$dir/dev/d1" rw
probes "ENOTCONN" open "$tree/d0/stat" r

start_elevd --disk d0="$work/image" --disk d1=ram:8M
check "the log says what was cleared" grep -q "$dir" "$log"
equal "mounts of DIR" 3 "$(mounts_below "$dir" | wc -l)"
probes "ok" check-answered "$dir/dev/d0" 8192 "$answered"
check "fio verifies" run_fio 60 --name=kept --filename="$dir/dev/d0" --ioengine=libaio --iodepth=8 \
  --serialize_overlap=1 --direct=1 --offset=32m --size=16m --bs=16k --rw=randwrite \
  --verify=crc32c --verify_only
probes "ok 4096" put "$dir/dev/d1" 0 4096 0 1

# Also when the new daemon has other disks, and after a second kill.
kill -KILL "$elevd_pid"
check "the daemon is gone" wait_for 10 gone "$elevd_pid"
start_elevd --disk other=ram:8M
equal "mounts of DIR" 2 "$(mounts_below "$dir" | wc -l)"
equal "size" 16384 "$(<"$tree/other/size")"
stop_elevd
equal "exit status" 0 "$elevd_status"
equal "mounts left" "" "$(mounts_below "$work")"

finish
