#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts that are refused: the exit status and one line that says why. Statuses: 2 command line or
# configuration, 3 a backing, 4 DIR or a mount (docs/architecture.md, command line).
. "$(dirname "$0")/lib.sh"
need_fuse

refused() {  # STATUS PATTERN ARGUMENTS...: elevd ends with STATUS and a message that matches
  local status=$1 pattern=$2
  shift 2
  equal "status of elevd $*" "$status" "$(status_of timeout 30 "$ELEVD_BIN/elevd" "$@")"
  matches "message of elevd $*" "$pattern" "$(<"$work/output")"
  equal "mounts after elevd $*" "" "$(mounts_below "$work/refused")"
}

mkdir -p "$work/refused"
at=$work/refused/dir
truncate -s 8M "$work/image"

# 2: the command line
refused 2 . "$at"
refused 2 . "$at" --disk
refused 2 . "$at" --nonsense --disk d0=ram:8M
refused 2 d0 "$at" --disk d0
refused 2 . "$at" --disk =ram:8M
refused 2 D0 "$at" --disk D0=ram:8M
refused 2 'a/b' "$at" --disk a/b=ram:8M
refused 2 . "$at" --disk .hidden=ram:8M
refused 2 . "$at" --disk "$(printf 'a%.0s' {1..32})=ram:8M"
refused 2 d0 "$at" --disk d0=ram:8M --disk d0=ram:8M
refused 2 abc "$at" --disk d0=ram:abc
refused 2 . "$at" --disk d0=ram:0
refused 2 nr_request "$at" --disk d0=ram:8M,nr_request=64
refused 2 nonsense "$at" --disk d0=ram:8M,nonsense=1
refused 2 scheduler "$at" --disk d0=ram:8M,scheduler=fastest
refused 2 queue_depth "$at" --disk d0=ram:8M,queue_depth=many
refused 2 workers "$at" --disk d0=ram:8M --workers none
refused 2 iosched/low_latencies "$at" --disk d0=ram:8M,iosched/low_latencies=1
refused 2 'low_latency=1: .*mq-deadline has no such' "$at" --disk d0=ram:8M,iosched/low_latency=1

# 2: the configuration file, with its place and a proposal
cat >"$work/bad.toml" <<'END'
[disk.d0]
backing = "ram:8M"
schedular = "none"
END
refused 2 'bad.toml:3.*schedular' --check --config "$work/bad.toml"
matches "a proposal" 'scheduler' "$(<"$work/output")"
printf '[disk.d0\n' >"$work/broken.toml"
refused 2 'broken.toml:1' --check --config "$work/broken.toml"
refused 2 absent.toml --check --config "$work/absent.toml"
cat >"$work/good.toml" <<'END'
[disk.d0]
backing = "ram:8M"
scheduler = "bfq"
queue.nr_requests = 64
queue.iosched.low_latency = false
queue.iosched.slice_idle_us = 2000
END
equal "status of a good file" 0 "$(status_of timeout 30 "$ELEVD_BIN/elevd" --check --config "$work/good.toml")"
equal "status of --version" 0 "$(status_of timeout 30 "$ELEVD_BIN/elevd" --version)"
matches "version" '[0-9]+\.[0-9]+\.[0-9]+' "$(<"$work/output")"

# 3: a backing that is missing, unsuitable or in use
refused 3 "$work/absent" "$at" --disk d0="$work/absent"
refused 3 "$work" "$at" --disk d0="$work"
: >"$work/empty"
refused 3 "$work/empty" "$at" --disk d0="$work/empty"
start_elevd --disk d0="$work/image"
refused 3 "$work/image" "$at" --disk other="$work/image"
refused 3 image "$at" --disk a=ram:8M --disk b="$work/image"

# 4: DIR in use, not a directory, not writable
refused 4 "$dir" "$dir" --disk other=ram:8M
equal "the first daemon still serves" 16384 "$(<"$tree/d0/size")"
probes "ok 4096" put "$dir/dev/d0" 0 4096 0 1
refused 4 "$work/image" "$work/image" --disk other=ram:8M
stop_elevd
equal "exit status" 0 "$elevd_status"

# 3: inside DIR, also by another name
mkdir -p "$work/refused/within"
truncate -s 8M "$work/refused/within/image"
ln -s "$work/refused/within/image" "$work/refused/link"
for path in within/image link within/../within/image; do
  refused 3 'inside' "$work/refused/within" --disk d0="$work/refused/$path"
done
equal "the image is left alone" 8388608 "$(stat -c %s "$work/refused/within/image")"
rm -r "$work/refused/within"

# 3: whoever reads only does not exclude others who do
start_elevd --disk d0="$work/image",read_only=true
equal "status of a second reader" 0 \
  "$(status_of timeout 30 "$ELEVD_BIN/elevd" "$at" --daemonize --disk d0="$work/image",read_only=true)"
second=$(head -n 1 "$at/.lock")
running+=("$second")
kill -TERM "$second"
check "the second reader ends" wait_for 20 gone "$second"
stop_elevd
equal "exit status" 0 "$elevd_status"

# 3: a block device that is mounted, or that somebody has for himself
if attach_loop "$work/image" && mkfs.ext4 -q -F "$loop" 2>"$work/mkfs.err" && mkdir "$work/mnt" &&
  mount "$loop" "$work/mnt"; then
  refused 3 "$loop: is mounted at $work/mnt" "$at" --disk d0="$loop"
  check "umount" umount "$work/mnt"
  start_elevd --disk d0="$loop"
  refused 3 "$loop: in use" "$at" --disk d0="$loop"
  stop_elevd
  equal "exit status" 0 "$elevd_status"
else
  echo "SKIP: no mounted block device"
fi

# What is not ours in DIR is neither covered nor removed.
mkdir -p "$dir/dev"
echo precious >"$dir/dev/mine"
start_elevd --disk d0=ram:8M
stop_elevd
equal "a foreign file" precious "$(<"$dir/dev/mine")"

finish
