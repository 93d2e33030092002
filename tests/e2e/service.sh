#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# elevd as a service: what it tells the service manager and when, --daemonize, the limits of
# packaging/elevd.service, unmounting by hand, and failures at each step of the start.
# Design: docs/architecture.md, life of the daemon. Not tested: the lines in the system log.
. "$(dirname "$0")/lib.sh"
need_fuse

unmount() { umount "$1" 2>/dev/null || fusermount3 -u "$1"; }
content() { (cd "$1" && find . -xdev -printf '%P %y %m %s\n' | sort); }  # DIR: what is in it

# --- NOTIFY_SOCKET --------------------------------------------------------------------------------

start_listener() {  # PATH...
  rm -f "$work/notify" "$work/notified"
  "$ELEVD_HELPERS/notify_listener" "$work/notify" "$@" </dev/null >"$work/notified" 2>&1 &
  running+=($!)
  wait_for 10 test -S "$work/notify" || die "no listener: $(<"$work/notified")"
}

# --stop-timeout goes to the manager, which has a limit of its own.
start_stall slow $((16 << 20))
start_listener "$dir/dev/d0" "$dir/dev/stuck" "$dir/sys"
export NOTIFY_SOCKET=$work/notify
start_elevd --disk d0=ram:8M --disk stuck="$work/slow" --stop-timeout 100s
unset NOTIFY_SOCKET
check "READY, when everything is mounted" wait_for 10 grep -qx '+READY=1' "$work/notified"
check "the process" wait_for 10 grep -qx "+MAINPID=$elevd_pid" "$work/notified"
check "what is served" wait_for 10 grep -qx "+STATUS=Serving 2 disks in $dir" "$work/notified"
equal "messages before the stop" 3 "$(wc -l <"$work/notified")"

# A second signal ends a stop that waits for a stalled disk, with status 1.
stall slow stall read >/dev/null
"$probe" get "$dir/dev/stuck" 0 4096 0 1 >"$work/read" 2>&1 &
reader=$!
running+=("$reader")
check "a read is held" wait_for 10 held_is slow 1
kill -TERM "$elevd_pid"
check "STOPPING" wait_for 10 grep -qx '.STOPPING=1' "$work/notified"
check "what is left" wait_for 10 grep -qx '.STATUS=Draining, 1 request left' "$work/notified"
check "the time it may take" grep -qx '.EXTEND_TIMEOUT_USEC=130000000' "$work/notified"
check_not "the end, without a second signal" gone "$elevd_pid"
stop_elevd TERM 20
equal "exit status after two signals" 1 "$elevd_status"
check "the reader ends" wait_for 10 gone "$reader"
equal "mounts left" "" "$(mounts_below "$dir")"
stall slow release all >/dev/null

# A start that fails is never ready.
start_listener
status=$(NOTIFY_SOCKET=$work/notify status_of timeout 30 "$ELEVD_BIN/elevd" "$work/other" --disk d0="$work/absent")
equal "status of a failed start" 3 "$status"
equal "messages of a failed start" "" "$(<"$work/notified")"

# --- --daemonize ------------------------------------------------------------------------------------

# The parent's session ends with it; the daemon goes on.
mkdir -p "$dir"
before=$(content "$dir")
daemonize() {  # elevd arguments without DIR
  timeout 30 setsid --wait "$ELEVD_BIN/elevd" "$dir" --daemonize "$@" </dev/null >"$work/said" 2>&1
}
truncate -s 8M "$work/image"
relative=$(cd "$work" && daemonize --disk d0=ram:8M --disk d1=image; echo $?)
equal "status of --daemonize" 0 "$relative"
check "everything is mounted when the command ends" all_mounted "$dir" d0 d1
elevd_pid=$(head -n 1 "$dir/.lock")
running+=("$elevd_pid")
check "a process goes on" alive "$elevd_pid"
equal "it leads a session of its own" "$elevd_pid" "$(ps -o sid= -p "$elevd_pid" | tr -d ' ')"
equal "it has no terminal" "?" "$(ps -o tty= -p "$elevd_pid" | tr -d ' ')"
equal "its working directory" / "$(readlink "/proc/$elevd_pid/cwd")"
for fd in 0 1 2; do
  equal "descriptor $fd" /dev/null "$(readlink "/proc/$elevd_pid/fd/$fd")"
done
probes "ok 4096" put "$dir/dev/d1" 0 4096 0 1
said=$(wc -l <"$work/said")
compare "lines before it went to the background" "$said" -ge 1

# Refused, before and after the fork: the status and the message come through, nothing is left.
equal "status while DIR is in use" 4 "$(daemonize --disk d2=ram:8M; echo $?)"
matches "message" "in use by another elevd" "$(<"$work/said")"
check "the first goes on" all_mounted "$dir" d0 d1
kill -TERM "$elevd_pid"
check "SIGTERM ends it" wait_for 20 gone "$elevd_pid"
equal "DIR afterwards" "$before" "$(content "$dir")"
equal "mounts left" "" "$(mounts_below "$dir")"
for bad in "3 absent $work/absent" "3 directory $work" "2 scheduler ram:8M,scheduler=nonsense"; do
  read -r status word backing <<<"$bad"
  equal "status with $backing" "$status" "$(daemonize --disk d0=ram:8M --disk d1="$backing"; echo $?)"
  matches "message with $backing" "$([[ $word == absent ]] && echo 'No such file' || echo "$word")" "$(<"$work/said")"
  equal "DIR when the command has ended, $word" "$before" "$(content "$dir")"
done

# --- Unmounting by hand ---------------------------------------------------------------------------

start_elevd --disk d0=ram:8M --disk d1="$work/image"
unmount "$dir/sys"
unmounted_sys() { grep -q "$dir/sys was unmounted by somebody else" "$log"; }
check "the unmounted tree is in the log" wait_for 10 unmounted_sys
probes "ok 4096" put "$dir/dev/d1" 0 4096 0 1
probes "ok 4096" get "$dir/dev/d1" 0 4096 0 1
stop_elevd
equal "exit status without DIR/sys" 0 "$elevd_status"
equal "DIR afterwards" "$before" "$(content "$dir")"

start_elevd --disk d0=ram:8M --disk d1="$work/image"
unmount "$dir/dev/d1"
taken_out() { [[ ! -e $tree/d1 && ! -e $dir/dev/d1 ]]; }
check "d1 leaves the tree, and its file goes" wait_for 10 taken_out
probes "ok 4096" put "$dir/dev/d0" 0 4096 0 1
# Its backing is free for another daemon.
equal "a daemon for the released backing" 0 \
  "$(status_of timeout 30 "$ELEVD_BIN/elevd" "$work/second" --daemonize --disk x="$work/image")"
second=$(head -n 1 "$work/second/.lock")
running+=("$second")
unmount "$work/second/dev/x"
check "the second daemon ends with its last disk" wait_for 20 gone "$second"
check_not "DIR of the second daemon stays" test -e "$work/second"
unmount "$dir/dev/d0"
check "the daemon ends with its last disk" wait_for 20 gone "$elevd_pid"
wait "$elevd_pid"
equal "exit status" 0 $?
equal "DIR afterwards" "$before" "$(content "$dir")"

# --- Failures of the start ------------------------------------------------------------------------

# With N descriptors each step from the lock of DIR to the control files fails once. What is there stays.
mkdir -p "$dir/dev"
echo precious >"$dir/dev/mine"
: >"$dir/dev/d1"
before=$(content "$dir")
failed=0
for ((n = 7; n < 80; ++n)); do
  timeout --kill-after=5 30 prlimit --nofile="$n:$n" "$ELEVD_BIN/elevd" "$dir" --daemonize \
    --disk d0=ram:8M --disk d1="$work/image" --workers 6 </dev/null >"$work/said" 2>&1
  status=$?
  ((status == 0)) && break
  failed=$((failed + 1))
  matches "status with $n descriptors" '^[134]$' "$status"
  compare "messages with $n descriptors" "$(wc -l <"$work/said")" -ge 1
  equal "mounts with $n descriptors" "" "$(mounts_below "$dir")"
  equal "DIR after a start with $n descriptors" "$before" "$(content "$dir")"
done
compare "starts that failed" "$failed" -ge 10
equal "a start with enough descriptors" 0 "$status"
elevd_pid=$(head -n 1 "$dir/.lock")
running+=("$elevd_pid")
kill -TERM "$elevd_pid"
check "SIGTERM ends it" wait_for 20 gone "$elevd_pid"
equal "DIR afterwards" "$before" "$(content "$dir")"

# A system call that fails, each in turn; strace makes it fail.
if strace -f -o /dev/null true 2>/dev/null && ! ldd "$ELEVD_BIN/elevd" | grep -q 'lib[at]san'; then
  for call in mkdir:ENOSPC memfd_create:EMFILE signalfd4:EMFILE mount:EIO \
    io_uring_setup:EPERM clone3:EAGAIN; do
    reached=0
    for ((n = 1; n < 12; ++n)); do
      timeout --kill-after=5 30 strace -f -o "$work/trace" \
        -e "inject=${call%:*}:error=${call#*:}:when=$n" "$ELEVD_BIN/elevd" "$dir" --daemonize \
        --disk d0=ram:8M --disk d1="$work/image" --workers 2 </dev/null >"$work/said" 2>&1 &
      traced=$!
      # strace goes on as long as the daemon: a start that succeeds is stopped.
      started() { gone "$traced" || all_mounted "$dir" d0 d1; }
      wait_for 30 started || fail "$call, number $n: the start hangs"
      if ! gone "$traced"; then
        pid=$(head -n 1 "$dir/.lock")
        kill -TERM "$pid"
        wait_for 30 gone "$traced" || fail "$call, number $n: the daemon hangs"
      fi
      wait "$traced"
      status=$?
      equal "mounts after a failed $call, number $n" "" "$(mounts_below "$dir")"
      equal "DIR after a failed $call, number $n" "$before" "$(content "$dir")"
      grep -q INJECTED "$work/trace" || break
      reached=$((reached + 1))
      checks=$((checks + 1))
    done
    compare "calls of ${call%:*} made to fail" "$reached" -ge 1
  done
else
  echo "note: strace cannot be used here, system calls are not made to fail"
fi

# --- The limits of the unit -----------------------------------------------------------------------

rm -rf "${dir:?}"
if ((EUID == 0)) && command -v setpriv >/dev/null; then
  setpriv --no-new-privs --bounding-set=-all,+sys_admin,+dac_override \
    --inh-caps=-all,+sys_admin,+dac_override \
    "$ELEVD_BIN/elevd" "$dir" --daemonize --disk d0=ram:8M --disk d1="$work/image" \
    </dev/null >"$work/said" 2>&1
  equal "a start with the capabilities of the unit" 0 $?
  elevd_pid=$(head -n 1 "$dir/.lock")
  running+=("$elevd_pid")
  probes "ok 4096" put "$dir/dev/d1" 0 4096 0 1
  accept "$(queue d1 nr_requests)" 64 64
  kill -TERM "$elevd_pid"
  check "SIGTERM ends it" wait_for 20 gone "$elevd_pid"
  equal "mounts left" "" "$(mounts_below "$dir")"
  check_not "DIR stays" test -e "$dir"
fi

finish
