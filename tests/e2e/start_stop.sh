#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Start and stop: everything is served when the mounts are there; SIGTERM and SIGINT drain, unmount
# and leave nothing behind. Design: docs/architecture.md, life of the daemon.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio

truncate -s 32M "$work/image"

for signal in TERM INT; do
  start_elevd --disk d0=ram:32M --disk d1="$work/image" --workers 2
  equal "size of d0 in sectors" 65536 "$(<"$tree/d0/size")"
  equal "size of d1 in sectors" 65536 "$(<"$tree/d1/size")"
  equal "bytes of d0" $((32 << 20)) "$(stat -c %s "$dir/dev/d0")"
  probes "ok 1048576" put "$dir/dev/d1" 0 1048576 0 3

  # A load that is running when the signal comes: all that was answered must be in the image.
  "$probe" write-until-error "$dir/dev/d1" 8192 "$work/progress" >"$work/load" &
  load=$!
  running+=("$load")
  enough() { [[ -s $work/progress ]] && (($("$probe" progress "$work/progress") >= 200)); }
  wait_for 20 enough || die "the load does not proceed"
  stop_elevd "$signal"
  equal "exit status after SIG$signal" 0 "$elevd_status"
  check "the load ends with the daemon" wait_for 20 gone "$load"
  equal "mounts left" "" "$(mounts_below "$work")"
  answered=$("$probe" progress "$work/progress")
  probes "ok" check-answered "$work/image" 8192 "$answered"
  check_not "the directory sys stays" test -e "$dir/sys"
  check_not "the file of d0 stays" test -e "$dir/dev/d0"
  rm -f "$work/progress"
done

# sd_notify: READY arrives at the socket of NOTIFY_SOCKET. Checked where a listener is at hand.
if command -v systemd-notify >/dev/null && command -v socat >/dev/null; then
  socat -u UNIX-RECV:"$work/notify" CREATE:"$work/notified" &
  running+=($!)
  wait_for 5 test -S "$work/notify" || die "no listener"
  export NOTIFY_SOCKET=$work/notify
  start_elevd --disk d0=ram:8M
  unset NOTIFY_SOCKET
  check "READY=1" wait_for 5 grep -q READY=1 "$work/notified"
  stop_elevd
  check "STOPPING=1" wait_for 5 grep -q STOPPING=1 "$work/notified"
fi

# Unmounting a disk by hand takes it out; the last one ends the daemon.
start_elevd --disk d0=ram:8M --disk d1=ram:8M
umount "$dir/dev/d0" 2>/dev/null || fusermount3 -u "$dir/dev/d0"
disk_is_gone() { [[ ! -e $tree/d0 ]]; }
check "d0 leaves the tree" wait_for 10 disk_is_gone
probes "ok 4096" put "$dir/dev/d1" 0 4096 0 1
umount "$dir/dev/d1" 2>/dev/null || fusermount3 -u "$dir/dev/d1"
check "the daemon ends with its last disk" wait_for 20 gone "$elevd_pid"
equal "mounts left" "" "$(mounts_below "$work")"

finish
