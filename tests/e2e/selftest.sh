#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The helpers and lib.sh themselves: a check that cannot fail proves nothing.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio

file=$work/plain
printf '128\n' >"$file"
probes "ok 3" write "$file" '64\n'
probes '64\n\n' read "$file" 100
probes '64|\n\n' read "$file" 2 100
probes "ENOENT" open "$work/absent" r
probes "open ENOENT" write "$work/absent" x
probes "EISDIR" open "$work" w

expect_failures() {  # how many of the checks just made must have failed
  equal "failed checks" "$1" "$((failures - failures_before))"
  failures=$((failures - $1))
}
failures_before=$failures
{
  probes "EINVAL" write "$file" 1
  equal "a" 1 2
  check "b" false
  check_not "c" true
  refuse EINVAL "$file" 2
  accept "$file" 3 4
  compare "d" 1 -ge 2
} >/dev/null 2>&1
# refuse fails twice: no error, and the file has changed.
expect_failures 8

check_not "a deadline ends" wait_for 0 false

# A report of a sanitizer in a log is found.
echo "x.cpp:1: runtime error: signed integer overflow" >"$work/other.log"
check_not "a report in a log" log_is_clean >/dev/null
rm "$work/other.log"

# The stalling file system.
start_stall slow $((16 << 20))
probes "ok 4096" put "$work/slow" 4096 4096 0 1
probes "ok 4096" get "$work/slow" 4096 4096 512 1
probes "differs at 4096" get "$work/slow" 4096 4096 0 2
equal "reads so far" 2 "$(stall slow count read)"
stall slow stall read >/dev/null
probes "ok 4096" put "$work/slow" 8192 4096 0 1
"$probe" get "$work/slow" 8192 4096 0 1 >"$work/answer" &
reader=$!
running+=("$reader")
check "the read is held" wait_for 5 held_is slow 1
check "the reader waits" alive "$reader"
equal "released" 1 "$(stall slow release 1)"
check "the reader goes on" wait_for 5 gone "$reader"
equal "the answer" "ok 4096" "$(<"$work/answer")"
"$probe" get "$work/slow" 8192 4096 0 1 >"$work/answer" &
reader=$!
running+=("$reader")
check "the read is held" wait_for 5 held_is slow 1
stall slow error 5 >/dev/null
check "the reader goes on" wait_for 5 gone "$reader"
equal "the answer" "EIO" "$(<"$work/answer")"

# 16 asynchronous and 4 synchronous readers are all held at once: the file itself limits nothing.
stall slow stall >/dev/null
(cd "$work" && exec fio --name=deep --filename="$work/slow" --ioengine=libaio --iodepth=16 --direct=1 \
  --rw=randread --bs=4k --size=8m --number_ios=16 --output=/dev/null) &
running+=($!)
check "16 held" wait_for 10 held_is slow 16
equal "released" 16 "$(stall slow release all)"
check "fio ends" wait_for 20 gone "${running[-1]}"

# A writer that is answered N times, and the check of what it wrote.
"$probe" write-until-error "$work/slow" 64 "$work/progress" >"$work/load" &
writer=$!
running+=("$writer")
rounds() { (($("$probe" progress "$work/progress") >= 200)); }
check "the writer proceeds" wait_for 10 rounds
stall slow stall write >/dev/null
check "a write is held" wait_for 5 held_is slow 1
answered=$("$probe" progress "$work/progress")
stall slow error 5 >/dev/null
check "the writer ends" wait_for 5 gone "$writer"
equal "the writer" "$answered EIO" "$(<"$work/load")"
probes "ok" check-answered "$work/slow" 64 "$answered"
matches "a later count" 'is lost' "$("$probe" check-answered "$work/slow" 64 $((answered + 9)))"
stall slow release all >/dev/null

# The matrix of fio finds a file that forgets: a hole punched between writing and verifying.
truncate -s 64M "$work/image"
dir=$work/fake
mkdir -p "$dir/dev"
ln -s "$work/image" "$dir/dev/image"
short=1
fio_matrix image psync
check "fio writes" run_fio 30 --name=w --filename="$work/image" --size=4m --bs=64k --rw=write \
  --verify=crc32c --do_verify=0
fallocate --punch-hole --offset $((1 << 20)) --length 65536 "$work/image"
check_not "fio verifies" run_fio 30 --name=w --filename="$work/image" --size=4m --bs=64k --rw=write \
  --verify=crc32c --verify_only >/dev/null

finish
