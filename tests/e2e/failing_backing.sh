#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A backing that fails: the caller gets the errno, the log says so once and not once per request, the
# daemon lives and keeps nothing. File systems that are full, files that were truncated or unlinked,
# devices and files that answer errors.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
start_stall bad $((16 << 20))
truncate -s 16M "$work/image" "$work/other" "$work/short"
arguments=(--disk bad="$work/bad" --disk file="$work/image" --disk gone="$work/other" --disk good=ram:16M
  --disk "short=$work/short,queue_depth=1,nr_requests=64,model=delay,model_service=50ms,model_parallel=1")

# Sparse files on file systems that are smaller.
full=()
if mount_fs memory tmpfs size=4M; then
  truncate -s 16M "$work/memory/image"
  arguments+=(--disk memory="$work/memory/image")
  full+=(memory)
fi
truncate -s 12M "$work/ext4.image"
if command -v mkfs.ext4 >/dev/null && attach_loop "$work/ext4.image" &&
  mkfs.ext4 -q -O ^has_journal "$loop" && mkdir "$work/ext4" && mount "$loop" "$work/ext4"; then
  truncate -s 64M "$work/ext4/image"
  arguments+=(--disk ext4="$work/ext4/image")
  full+=(ext4)
fi
# A block device that fails.
start_stall under $((16 << 20))
device=
if attach_loop "$work/under" --direct-io=on; then
  device=$loop
  arguments+=(--disk device="$device")
fi
start_elevd "${arguments[@]}"

lines_of() { grep -c "$1: .* failed" "$log"; }  # DISK

# --- Errors of the device, one errno after the other ------------------------------------------------

fails() {  # DISK STALL NAME-OF-ERRNO NUMBER PROBE-ARGUMENTS...: held, then answered with that errno
  local disk=$1 stalled=$2 name=$3 number=$4 asking
  shift 4
  stall "$stalled" stall >/dev/null
  timeout 30 "$probe" "$1" "$dir/dev/$disk" "${@:2}" >"$work/answer" 2>&1 &
  asking=$!
  wait_for 20 held_is "$stalled" 1 || fail "the request does not arrive"
  stall "$stalled" error "$number" >/dev/null
  wait "$asking"
  equal "$disk: $*" "$name" "$(<"$work/answer")"
  stall "$stalled" release all >/dev/null
}
for _ in 1 2 3 4 5; do
  fails bad bad EIO 5 put 0 4096 0 1
  fails bad bad EIO 5 get 0 4096 0 1
  fails bad bad ENOSPC 28 put 8192 4096 0 1
done
probes "ok 4096" put "$dir/dev/bad" 0 4096 0 1
compare "lines in the log for 15 failures" "$(lines_of bad)" -le 4
compare "lines in the log for 15 failures" "$(lines_of bad)" -ge 1
if [[ -n $device ]]; then
  stall under fail 5 >/dev/null
  probes EIO put "$dir/dev/device" 4096 4096 0 1
  probes EIO get "$dir/dev/device" 4096 4096 0 1
  probes EIO put "$dir/dev/device" 4097 100 0 1
  stall under fail 0 >/dev/null
  probes "ok 4096" put "$dir/dev/device" 4096 4096 0 1
  probes "ok 4096" get "$dir/dev/device" 4096 4096 0 1
  probes "ok 100" put "$dir/dev/device" 5000 100 0 2
  probes "ok 100" get "$dir/dev/device" 5000 100 0 2
fi

# --- Full file systems --------------------------------------------------------------------------------

for disk in "${full[@]}"; do
  file=$dir/dev/$disk
  head -c 1M /dev/zero >"$work/$disk/filler"
  # Also the write that has room for a part of it only.
  for ((at = 0, answer = 0; at < 16 << 20; at += 300 << 10)); do
    answer=$("$probe" put "$file" "$at" $((300 << 10)) 0 1)
    [[ $answer == "ok $((300 << 10))" ]] || break
  done
  # A short one is the part before; what follows it fails.
  if [[ $answer == "ok "* ]]; then answer=$("$probe" put "$file" $((at + ${answer#ok })) 65536 0 1); fi
  equal "$disk: the first write that fails" ENOSPC "$answer"
  probes ENOSPC put "$file" $((15 << 20)) 65536 0 1
  probes "ok $((300 << 10))" get "$file" 0 $((300 << 10)) 0 1
  probes "ok 4096" put "$file" 4096 4096 0 2
  rm "$work/$disk/filler"
  probes "ok 65536" put "$file" $((15 << 20)) 65536 0 1
  probes "ok 65536" get "$file" $((15 << 20)) 65536 0 1
  equal "$disk: lines in the log" 1 "$(lines_of "$disk")"
done

# --- A file that becomes shorter, or has no name any more -----------------------------------------------

truncate -s $(((8 << 20) + 100)) "$work/image"
shorter=(file "$work/image")
if [[ -d $work/memory ]] && truncate -s $(((8 << 20) + 100)) "$work/memory/image"; then
  [[ " ${full[*]} " == *" memory "* ]] && shorter+=(memory "$work/memory/image")
fi
for ((i = 0; i < ${#shorter[@]}; i += 2)); do
  file=$dir/dev/${shorter[i]}
  probes EIO get "$file" $((12 << 20)) 4096 0 1
  probes EIO get "$file" $(((8 << 20) - 4096)) 16384 0 1
  probes EIO get "$file" $((8 << 20)) 4096 0 1
  probes "ok 4096" put "$file" 0 4096 0 2
  probes "ok 4096" get "$file" 0 4096 0 2
  # Who writes there makes it longer again.
  probes "ok 4096" put "$file" $((12 << 20)) 4096 0 2
  probes "ok 4096" get "$file" $((12 << 20)) 4096 0 2
  probes zero is-zero "$file" $((10 << 20)) 4096
done
truncate -s 8M "$work/image"

# Of reads that were merged only those beyond the end fail. One request at a time is at the device, and
# the others wait and are merged.
truncate -s 8M "$work/short"
(cd "$work" && timeout 60 fio --name=merged --filename="$dir/dev/short" --offset=$(((8 << 20) - (12 << 12))) \
  --size=$((16 << 12)) --bs=4k --rw=read --ioengine=libaio --iodepth=16 --direct=1 \
  --continue_on_error=all --output-format=json --output="$work/merged.out" >/dev/null 2>&1)
compare "merged reads" "$(stat_field short 2)" -ge 8
matches "merged reads that failed" '"total_err" : 4,' "$(<"$work/merged.out")"

rm "$work/other"
probes "ok 4096" put "$dir/dev/gone" 4096 4096 0 3
probes "ok 4096" get "$dir/dev/gone" 4096 4096 0 3
probes ok fsync "$dir/dev/gone"

# --- Very many failures -----------------------------------------------------------------------------

flood() {  # requests that all fail, many at once
  (cd "$work" && timeout 60 fio --name=flood --filename="$dir/dev/bad" --size=16m --bs=4k --rw=randrw \
    --ioengine=libaio --direct=1 --iodepth=32 --loops=2 --continue_on_error=all --norandommap \
    --output="$work/flood.out" >/dev/null 2>&1)
}
answered() { awk '{ print $1 + $5 }' "$tree/bad/stat"; }
descriptors() { find "/proc/$elevd_pid/fd" -mindepth 1 | wc -l; }
memory() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$elevd_pid/status"; }

stall bad fail 5 >/dev/null
flood
before=$(answered) descriptors=$(descriptors) memory=$(memory)
lines=$(lines_of bad) began=$SECONDS
for _ in 1 2; do flood; done
compare "requests that failed" $(($(answered) - before)) -ge 8000
compare "lines in the log for them" $(($(lines_of bad) - lines)) -le $(((SECONDS - began) / 10 + 1))
if ldd "$ELEVD_BIN/elevd" | grep -q 'lib[at]san'; then
  echo "note: a sanitizer has memory and descriptors of its own, not counted"
else
  equal "descriptors after them" "$descriptors" "$(descriptors)"
  compare "KiB of memory after them" "$(memory)" -le $((memory + 512))
fi
stall bad fail 0 >/dev/null
probes "ok 4096" put "$dir/dev/bad" 0 4096 0 5
probes "ok 4096" get "$dir/dev/bad" 0 4096 0 5

# The others never noticed.
probes "ok 1048576" put "$dir/dev/good" 0 1048576 0 4
probes "ok 1048576" get "$dir/dev/good" 0 1048576 0 4
for disk in bad file gone good "${full[@]}"; do
  equal "in flight on $disk" 0 "$(stat_field "$disk" 9)"
done
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
