#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Callers whose memory is not page aligned must not make unaligned ranges: 1 MiB from page + 64 is
# 2048 sectors in whole blocks, without a read before a write. docs/spec/fuse.md section 5. Page
# alignment of WRITE payloads is asserted by debug builds; log_is_clean finds a failed assertion.
. "$(dirname "$0")/lib.sh"
need_fuse
truncate -s 32M "$work/image"
start_elevd --disk file="$work/image",scheduler=none --disk ram=ram:32M,scheduler=none

delta() {  # DISK FIELD COMMAND...: how much the field grows
  local disk=$1 field=$2 before
  shift 2
  before=$(stat_field "$disk" "$field")
  "$@" >/dev/null
  echo $(($(stat_field "$disk" "$field") - before))
}

for disk in file ram; do
  file=$dir/dev/$disk
  for offset in 0 64 512 1000 4095; do
    read -r -a before <"$tree/$disk/stat"
    probes "ok 1048576" put "$file" 0 1048576 "$offset" "$offset"
    read -r -a after <"$tree/$disk/stat"
    equal "sectors written from page + $offset" 2048 $((after[6] - before[6]))
    equal "reads before the write" 0 $((after[0] - before[0]))
    probes "ok 1048576" get "$file" 0 1048576 "$offset" "$offset"
    read -r -a before <"$tree/$disk/stat"
    equal "sectors read to page + $offset" 2048 $((before[2] - after[2]))
  done
  # A 4 KiB transfer from odd memory is one request of 8 sectors.
  equal "sectors of 4 KiB" 8 "$(delta "$disk" 7 "$probe" put "$file" 8192 4096 100 1)"
  equal "requests of 4 KiB" 1 "$(delta "$disk" 5 "$probe" put "$file" 8192 4096 100 1)"
done
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
