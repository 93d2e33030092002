#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Punched and zeroed ranges read as zeroes on every backing, and nothing beside them changes: whole disks,
# beyond 4 GiB and 2 TiB, at odd offsets, cut to discard_max_bytes. docs/spec/plug-and-merge.md section 7,
# docs/spec/fuse.md section 11.
. "$(dirname "$0")/lib.sh"
need_fuse
kib=1024
mib=$((1 << 20))
gib=$((1 << 30))
tib=$((1 << 40))
declare -A size=([file]=$((3 * tib)) [ram]=$((3 * tib)) [null]=$((3 * tib)))
truncate -s 3T "$work/image"
arguments=(--disk file="$work/image" --disk ram=ram:3T --disk null=null:3T)
if mount_fs memory tmpfs size=64M; then
  truncate -s 3T "$work/memory/image"
  arguments+=(--disk tmpfs="$work/memory/image")
  size[tmpfs]=$((3 * tib))
fi
truncate -s 5G "$work/device" "$work/device4096"
if attach_loop "$work/device" --direct-io=on; then
  arguments+=(--disk device="$loop")
  size[device]=$((5 * gib))
fi
if attach_loop "$work/device4096" --direct-io=on --sector-size 4096; then
  arguments+=(--disk device4096="$loop")
  size[device4096]=$((5 * gib))
fi
start_elevd "${arguments[@]}"

discards() { awk '{ print $12, $14 }' "$tree/$1/stat"; }  # DISK: requests and sectors
grown() {  # DISK "BEFORE": by how much
  local earlier now
  read -r -a earlier <<<"$2"
  read -r -a now < <(discards "$1")
  echo "$((now[0] - earlier[0])) $((now[1] - earlier[1]))"
}
stored() { [[ $1 != null ]]; }
put() { probes "ok $3" put "$dir/dev/$1" "$2" "$3" 0 "$4"; }  # DISK OFFSET SIZE SEED
holds() { if stored "$1"; then probes "ok $3" get "$dir/dev/$1" "$2" "$3" 0 "$4"; fi; }
zero() { probes zero is-zero "$dir/dev/$1" "$2" "$3"; }  # DISK OFFSET SIZE

# punch|zero: the bytes [OFFSET, OFFSET + SIZE) of 1 MiB at PLACE, and no others, become zeroes.
clears() {  # HOW DISK PLACE OFFSET SIZE
  local how=$1 disk=$2 place=$3 from=$(($3 + $4)) to=$(($3 + $4 + $5))
  put "$disk" "$place" "$mib" "$4"
  probes ok fallocate "$dir/dev/$disk" "$how" "$from" "$5"
  zero "$disk" "$from" "$5"
  if ((from > place)); then holds "$disk" "$place" $((from - place)) "$4"; fi
  if ((to < place + mib)); then holds "$disk" "$to" $((place + mib - to)) "$4"; fi
}

for disk in "${!size[@]}"; do
  # Whole blocks, parts of one, of two, of many; none inside; from and to a block's edge.
  for how in punch zero; do
    clears $how "$disk" "$mib" $((64 * kib)) $((128 * kib))
    clears $how "$disk" "$mib" 1 1
    clears $how "$disk" "$mib" 4000 200
    clears $how "$disk" "$mib" 4095 2
    clears $how "$disk" "$mib" 12345 678901
    clears $how "$disk" "$mib" 8192 12345
    clears $how "$disk" "$mib" 4097 4095
    clears $how "$disk" "$mib" 0 "$mib"
  done
  # Beyond what 32 bits count: bytes at 4 GiB, sectors at 2 TiB.
  for place in $((4 * gib - mib / 2)) $((2 * tib - mib / 2)); do
    if ((place + mib > size[$disk])); then continue; fi
    clears punch "$disk" "$place" 12345 678901
    clears zero "$disk" "$place" 511 $((mib - 1022))
  done

  # Cut: the limit down to the granularity, pieces that begin on it.
  accept "$(queue "$disk" discard_max_bytes)" 12288 12288
  equal "granularity of $disk" 4096 "$(<"$(queue "$disk" discard_granularity)")"
  before=$(discards "$disk")
  clears punch "$disk" "$mib" 8192 $((20 * 12288))
  equal "$disk: pieces and sectors of 20 limits" "20 480" "$(grown "$disk" "$before")"
  if [[ $(<"$(queue "$disk" logical_block_size)") == 512 && $disk != device ]]; then
    before=$(discards "$disk")
    clears punch "$disk" "$mib" 1000 100000
    equal "$disk: pieces and sectors at odd offsets" "9 197" "$(grown "$disk" "$before")"
  else
    clears punch "$disk" "$mib" 1000 100000
  fi
  refuse EINVAL "$(queue "$disk" discard_max_bytes)" 12289
  accept "$(queue "$disk" discard_max_bytes)" 0 0
  probes EOPNOTSUPP fallocate "$dir/dev/$disk" punch 0 "$mib"
  probes EOPNOTSUPP fallocate "$dir/dev/$disk" punch 1 "$mib"
  hardware=$(<"$(queue "$disk" discard_max_hw_bytes)")
  accept "$(queue "$disk" discard_max_bytes)" $((hardware / 4096 * 4096)) $((hardware / 4096 * 4096))

  # All of it. What is beyond the end does not count.
  last=$((size[$disk] - mib))
  put "$disk" 0 "$mib" 1
  put "$disk" $((4 * gib - mib)) "$mib" 2
  put "$disk" "$last" "$mib" 3
  before=$(discards "$disk")
  probes ok fallocate "$dir/dev/$disk" punch 0 "${size[$disk]}"
  most=$((hardware / 4096 * 4096))
  equal "$disk: pieces and sectors of all of it" \
    "$(((size[$disk] + most - 1) / most)) $((size[$disk] / 512))" "$(grown "$disk" "$before")"
  # Before it is read: a page of ram is data once it was read.
  if [[ $disk != device* ]]; then probes ENXIO seek "$dir/dev/$disk" data 0; fi
  zero "$disk" 0 "$mib"
  zero "$disk" $((4 * gib - mib)) "$mib"
  zero "$disk" "$last" "$mib"
  put "$disk" "$last" "$mib" 4
  probes ok fallocate "$dir/dev/$disk" punch "$((last + 1))" $((8 * mib))
  zero "$disk" $((last + 1)) $((mib - 1))
  holds "$disk" "$last" 1 4
done

# Zeroes of more than one request, on blocks of 4096: each begins on a block.
if [[ -n ${size[device4096]:-} ]]; then
  put device4096 $((4 * gib - mib)) "$mib" 5
  put device4096 $((4 * gib)) "$mib" 6
  probes ok fallocate "$dir/dev/device4096" zero 4096 $((4 * gib + 4096))
  zero device4096 $((4 * gib - mib)) "$mib"
  zero device4096 $((4 * gib)) 8192
  holds device4096 $((4 * gib + 8192)) $((mib - 8192)) 6
  probes ok fallocate "$dir/dev/device4096" punch 0 $((5 * gib))
fi
used=$(du -s --block-size=1M "$work/image" | cut -f1)
compare "MiB of the image left after it was punched" "$used" -le 4

stop_elevd
equal "exit status" 0 "$elevd_status"
finish
