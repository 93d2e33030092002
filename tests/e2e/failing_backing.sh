#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A backing that fails: the caller gets the errno, the log says so once, the daemon lives.
. "$(dirname "$0")/lib.sh"
need_fuse
start_stall bad $((16 << 20))
truncate -s 16M "$work/image"
start_elevd --disk bad="$work/bad" --disk file="$work/image" --disk good=ram:16M

# Errors of the device, one errno after the other: each request is held, then answered with it.
fails() {  # NAME-OF-ERRNO NUMBER PROBE-ARGUMENTS...
  stall bad stall >/dev/null
  timeout 30 "$probe" "${@:3}" >"$work/answer" 2>&1 &
  local asking=$!
  wait_for 20 held_is bad 1 || fail "the request does not arrive"
  stall bad error "$2" >/dev/null
  wait "$asking"
  equal "${*:3}" "$1" "$(<"$work/answer")"
  stall bad release all >/dev/null
}
for _ in 1 2 3 4 5; do
  fails EIO 5 put "$dir/dev/bad" 0 4096 0 1
  fails EIO 5 get "$dir/dev/bad" 0 4096 0 1
  fails ENOSPC 28 put "$dir/dev/bad" 8192 4096 0 1
done
probes "ok 4096" put "$dir/dev/bad" 0 4096 0 1
lines=$(grep -c "bad: .* failed" "$log")
compare "lines in the log for 15 failures" "$lines" -le 4
compare "lines in the log for 15 failures" "$lines" -ge 1

# The file becomes shorter: reads and writes of what is gone.
truncate -s 8M "$work/image"
probes "EIO" get "$dir/dev/file" $((12 << 20)) 4096 0 1
probes "ok 4096" put "$dir/dev/file" 0 4096 0 2
probes "ok 4096" get "$dir/dev/file" 0 4096 0 2

# Unlinked: the disk goes on with the file it has.
rm "$work/image"
probes "ok 4096" put "$dir/dev/file" 4096 4096 0 3
probes "ok 4096" get "$dir/dev/file" 4096 4096 0 3

# The others never noticed.
probes "ok 1048576" put "$dir/dev/good" 0 1048576 0 4
probes "ok 1048576" get "$dir/dev/good" 0 1048576 0 4
equal "in flight on bad" 0 "$(stat_field bad 9)"
stop_elevd
finish
