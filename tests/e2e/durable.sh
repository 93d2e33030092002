#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A write with RWF_DSYNC is answered after the backing has flushed: the kernel sends no FSYNC for it
# (docs/spec/fuse.md section 1 item 5). fsync flushes, once a call. Counters: docs/spec/plug-and-merge.md
# section 8: a flush counts as a flush and as one write of 0 sectors.
. "$(dirname "$0")/lib.sh"
need_fuse
start_stall slow $((16 << 20))
start_elevd --disk d0="$work/slow",scheduler=none --stop-timeout 5s
file=$dir/dev/d0

numbers() {  # writes, sectors written, flushes
  awk '{ print $5, $7, $16 }' "$tree/d0/stat"
}
grown() {  # "BEFORE" "AFTER": the differences
  awk -v b="$1" -v a="$2" 'BEGIN { split(b, x); split(a, y); print y[1]-x[1], y[2]-x[2], y[3]-x[3] }'
}
steps() {  # WHAT "WRITES SECTORS FLUSHES" PROBE-ANSWER PROBE-ARGUMENTS...
  local before what=$1 expected=$2
  shift 2
  before=$(numbers)
  probes "$@"
  equal "$what: writes, sectors, flushes" "$expected" "$(grown "$before" "$(numbers)")"
}

steps "plain write" "1 8 0" "ok 4096" put "$file" 0 4096 0 1
steps "fsync" "1 0 1" "ok" fsync "$file"
# The kernel adds an fsync of its own after an O_DSYNC write to a device (2 writes, 2 flushes there);
# a FUSE file gets none, so the flush of the write itself is the only one.
steps "dsync write" "1 8 1" "ok 4096" put "$file" 0 4096 0 1 dsync
steps "sync write" "1 8 1" "ok 4096" put "$file" 0 4096 0 1 sync
accept "$(queue d0 write_cache)" "write through" "write through"
steps "fsync, write through" "0 0 0" "ok" fsync "$file"
steps "dsync write, write through" "1 8 0" "ok 4096" put "$file" 0 4096 0 1 dsync
accept "$(queue d0 write_cache)" "write back" "write back"

# The backing holds its flush: the writer waits for it.
flushes=$(stall slow count fsync)
stall slow stall fsync >/dev/null
"$probe" put "$file" 4096 4096 0 2 dsync >"$work/answer" &
writer=$!
running+=("$writer")
check "the flush reaches the backing" wait_for 10 held_is slow 1
equal "flushes of the backing" $((flushes + 1)) "$(stall slow count fsync)"
check "the writer waits for the flush" alive "$writer"
probes "ok 4096" get "$file" 4096 4096 0 2
check "the writer still waits" alive "$writer"
stall slow release all >/dev/null
check "the writer ends" wait_for 10 gone "$writer"
equal "the answer" "ok 4096" "$(<"$work/answer")"

# A flush that fails is the error of the write, and of the fsync.
stall slow stall fsync >/dev/null
for call in put fsync; do
  if [[ $call == put ]]; then
    "$probe" put "$file" 4096 4096 0 2 dsync >"$work/answer" &
  else
    "$probe" fsync "$file" >"$work/answer" &
  fi
  running+=($!)
  check "$call: the flush is held" wait_for 10 held_is slow 1
  stall slow error 5 >/dev/null
  check "$call ends" wait_for 10 gone "${running[-1]}"
  equal "the answer of $call" "EIO" "$(<"$work/answer")"
done
stall slow release all >/dev/null

# Errors of reads and writes reach the caller; the disk goes on.
stall slow stall read write >/dev/null
for call in put get; do
  "$probe" $call "$file" 4096 4096 0 2 >"$work/answer" &
  running+=($!)
  check "$call is held" wait_for 10 held_is slow 1
  stall slow error 28 >/dev/null
  check "$call ends" wait_for 10 gone "${running[-1]}"
  equal "the answer of $call" "ENOSPC" "$(<"$work/answer")"
done
stall slow release all >/dev/null
probes "ok 4096" put "$file" 4096 4096 0 2

stop_elevd
equal "exit status" 0 "$elevd_status"
finish
