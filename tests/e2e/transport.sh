#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How the kernel is reached. With fuse.enable_uring on, `auto` takes the ring; an entry holds one
# request, so with all entries of a CPU held only what needs that disk's own connection waits. With it
# off, `auto` says why and what to do, and who insists is refused. docs/spec/fuse.md section 8.
. "$(dirname "$0")/lib.sh"
need_fuse
need taskset
parameter=/sys/module/fuse/parameters/enable_uring
unset ELEVD_TEST_TRANSPORT  # start_elevd: auto

if [[ $(cat "$parameter" 2>/dev/null) != Y ]]; then
  start_elevd --disk d0=ram:8M
  matches "auto, where the kernel has no ring" 'transport dev, not uring: .' "$(<"$log")"
  equal "one line says it" 1 "$(grep -c 'not uring' "$log")"
  if [[ -e $parameter ]]; then
    matches "and what to do" "echo Y > $parameter, or for good" "$(<"$log")"
  fi
  equal "transport" dev "$(transport_of d0)"
  stop_elevd
  equal "who insists is refused" 4 \
    "$(status_of timeout 20 "$ELEVD_BIN/elevd" "$dir" --transport uring --disk d0=ram:8M)"
  matches "with the reason" '^elevd: transport uring: .' "$(tail -n 1 "$work/output")"
  equal "nothing is left of the start" "" "$(mounts_below "$dir")"
  finish
fi

start_elevd --transport dev --disk d0=ram:8M
equal "transport dev" dev "$(transport_of d0)"
check_not "no word about the other" grep -q uring "$log"
stop_elevd

# 4 entries a CPU: what 1M of payloads allows at least.
start_stall slow $((64 << 20))
start_elevd --stop-timeout 5s --disk stuck="$work/slow",buffer_memory=1M,scheduler=none \
  --disk other=ram:16M
equal "auto" uring "$(transport_of stuck)"
equal "of both disks" uring "$(transport_of other)"
matches "the log says what the scheduler can see" \
  "stuck: buffer_memory holds $((4 * $(getconf _NPROCESSORS_CONF))) requests: of nr_requests 128" "$(<"$log")"

cpu=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
within() {  # SECONDS COMMAND...: the command ends in that time on that CPU
  timeout --kill-after=5 "$1" taskset -c "$cpu" "${@:2}"
}
read_block() {  # NUMBER: 4 KiB, which are zeroes
  exec taskset -c "$cpu" dd if="$dir/dev/stuck" bs=4096 count=1 skip="$1" status=none
}
stall slow stall >/dev/null
for i in 0 1 2 3; do
  read_block $i >"$work/answer$i" &
  running+=($!)
done
check "four are held" wait_for 10 held_is slow 4
check "a control file of it" within 5 cat "$tree/stuck/stat" >/dev/null
check "ls of DIR/dev" within 5 ls "$dir/dev" >/dev/null
check "ls -l of DIR/dev" within 5 ls -l "$dir/dev" >/dev/null
equal "a tunable of it" "ok 1" "$(within 5 "$probe" write "$(queue stuck nomerges)" 1)"
equal "the other disk" "ok 4096" "$(within 5 "$probe" put "$dir/dev/other" 0 4096 0 1)"
# No entry of this CPU is left for the fifth: it waits in the kernel, where nobody counts it.
read_block 16 >"$work/answer4" &
running+=($!)
check_not "opening it waits" within 1 "$probe" open "$dir/dev/stuck" r >/dev/null
equal "held by the disk" 4 "$(stall slow held)"
stall slow release all >/dev/null
for i in 0 1 2 3 4; do
  check "reader $i ends" wait_for 20 gone "${running[-$((5 - i))]}"
  check "reader $i" cmp -s -n 4096 /dev/zero "$work/answer$i"
done
equal "and it can be opened" ok "$(within 10 "$probe" open "$dir/dev/stuck" r)"

# The connection is aborted under load: the load gets errors, the daemon goes on with the other disk.
"$probe" write-until-error "$dir/dev/stuck" 64 "$work/progress" >"$work/load" &
load=$!
running+=("$load")
proceeds() { (($("$probe" progress "$work/progress") >= 50)); }
check "the load proceeds" wait_for 20 proceeds
umount -l "$dir/dev/stuck"
equal "the other disk goes on" "ok 4096" "$(within 5 "$probe" get "$dir/dev/other" 0 4096 0 1)"
kill -KILL "$load"
check "the load is gone" wait_for 20 gone "$load"
taken_out() { grep -q 'stuck: released' "$log"; }
check "the disk is taken out" wait_for 20 taken_out
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
