#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A disk or the daemon ends under a deep load: unmounted and aborted, with a stalled backing, too, stopped,
# killed. What was in flight ends with an error, the other disk goes on, nothing hangs.
# docs/spec/fuse.md section 12, elevd(8) "Recovery".
. "$(dirname "$0")/lib.sh"
need_fuse
need_root
need fio
mount_fs connections fusectl || skip "no fusectl"
connections=$work/connections
make_image "$work/image" 32
make_image "$work/other" 32

# load DISK ENGINE: deep, until an error ends it; adds to `loads`. fio's own process, its jobs are threads.
load() {
  (cd "$work" && exec fio --name="$1" --filename="$dir/dev/$1" --ioengine="$2" --iodepth=64 --numjobs=2 \
    --thread --direct=1 --size=32m --rw=randrw --bs=4k --time_based --runtime=200 --output=/dev/null) \
    >/dev/null 2>&1 &
  loads+=($!)
  running+=($!)
}
proceeds() { (($(stat_field "$1" 1) >= 500 && $(stat_field "$1" 5) >= 500)); }  # DISK
connection_of() { mountpoint -d "$dir/dev/$1" | sed 's/.*://'; }  # DISK: its number in $connections
taken_out() { grep -q "$1: released" "$log"; }  # DISK
loads_end() {
  local pid
  for pid in "${loads[@]}"; do check "a load ends" wait_for 20 gone "$pid"; done
  loads=()
}

# Unmounted lazily the load goes on; the abort ends it, and takes the disk out.
loads=()
start_elevd --disk d0="$work/image" --disk d1=ram:32M --disk d2="$work/other"
load d0 io_uring
check "the load proceeds" wait_for 20 proceeds d0
number=$(connection_of d0)
umount -l "$dir/dev/d0"
check_not "the load ends by that" gone "${loads[0]}"
echo 1 >"$connections/$number/abort"
loads_end
check "the disk is taken out" wait_for 20 taken_out d0
equal "the other disk goes on" "ok 4096" "$(timeout 10 "$probe" put "$dir/dev/d1" 0 4096 0 1)"

# SIGTERM, also with a disk that somebody unmounted lazily, so that its load goes on.
load d1 libaio
load d2 io_uring
check "the load on d1 proceeds" wait_for 20 proceeds d1
check "the load on d2 proceeds" wait_for 20 proceeds d2
umount -l "$dir/dev/d2"
stop_elevd TERM 20
equal "exit status" 0 "$elevd_status"
loads_end
equal "mounts left" "" "$(mounts_below "$dir")"

# kill -9.
start_elevd --disk d0="$work/image" --disk d1=ram:32M
load d0 libaio
load d1 io_uring
check "the load on d0 proceeds" wait_for 20 proceeds d0
check "the load on d1 proceeds" wait_for 20 proceeds d1
kill -KILL "$elevd_pid"
check "the daemon is gone" wait_for 20 gone "$elevd_pid"
loads_end
equal "mounts left" 3 "$(mounts_below "$dir" | wc -l)"
for mount in "$dir/dev/d0" "$dir/dev/d1" "$dir/sys"; do check "umount -l" umount -l "$mount"; done

# A backing that never answers: the callers cannot be killed, the abort frees them.
start_stall slow $((32 << 20))
start_elevd --disk d0="$work/slow",scheduler=none --disk d1=ram:32M --stop-timeout 10s
stall slow stall >/dev/null
load d0 libaio
held_some() { (($(stall slow held) >= 8)); }
check "the backing holds some" wait_for 20 held_some
kill -KILL "${loads[0]}"
number=$(connection_of d0)
umount -l "$dir/dev/d0"
equal "the other disk" "ok 4096" "$(timeout 10 "$probe" put "$dir/dev/d1" 0 4096 0 1)"
check_not "the load can be killed" gone "${loads[0]}"
echo 1 >"$connections/$number/abort"
loads_end
stall slow release all >/dev/null
check "the disk is taken out" wait_for 20 taken_out d0
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
