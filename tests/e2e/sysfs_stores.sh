#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Accepted and refused stores, errno by errno: docs/spec/sysfs.md sections 2 to 4, as far as the
# attributes exist without a scheduler.
. "$(dirname "$0")/lib.sh"
need_fuse

start_elevd --disk d0=ram:64M,scheduler=none
path() { queue d0 "$1"; }

# --- grammar U32, on an attribute that keeps any number (sections 2 and 3)
file=$(path nr_requests)
accept "$file" '64' 64
accept "$file" '65\n' 65
accept "$file" '+66' 66
accept "$file" '0067\n' 67
accept "$file" '+00000000000068' 68
for text in '\n' ' ' ' 64' '64 ' '64 \n' '-64' '-0' '0x40' '64\r\n' '64\n\n' '64x' 'x64' 'abc' '6 4' \
  '4294967296' '99999999999999999999' '+' '++64' '+-64' '64.0' '6e1' '\t64' '١'; do
  refuse EINVAL "$file" "$text"
done

# --- nr_requests: at least 4, at most the depth of the hardware queue
for text in 0 1 2 3 4; do accept "$file" "$text" 4; done
accept "$file" 128 128
refuse EINVAL "$file" 129
refuse EINVAL "$file" 4294967295

# --- async_depth: not without a scheduler
file=$(path async_depth)
equal "async_depth follows nr_requests" 128 "$(<"$file")"
for text in 0 1 64 128 x; do refuse EINVAL "$file" "$text"; done

# --- nomerges: any number other than 0 and 2 is 1
file=$(path nomerges)
for text in 1 3 17 4294967295; do accept "$file" "$text" 1; done
accept "$file" 2 2
refuse EINVAL "$file" -1
refuse EINVAL "$file" 4294967296
accept "$file" 0 0

# --- max_sectors_kb: 0 is the default, 1..3 refused, above the hardware limit clamped
file=$(path max_sectors_kb)
for text in 1 2 3; do refuse EINVAL "$file" "$text"; done
for text in 4 5 6 7 128 1280; do accept "$file" "$text" "$text"; done
accept "$file" 1281 1280
accept "$file" 4294967295 1280
accept "$file" 64 64
accept "$file" 0 1280
refuse EINVAL "$file" x

# --- discard_max_bytes: multiples of the granularity, clamped, and 0 can be undone here
file=$(path discard_max_bytes)
granularity=$(<"$(path discard_granularity)")
most=$(<"$(path discard_max_hw_bytes)")
compare "discard works on memory" "$granularity" -gt 0
refuse EINVAL "$file" $((granularity + 1))
refuse EINVAL "$file" $((granularity / 2))
accept "$file" "$granularity" "$granularity"
accept "$file" $((8 * granularity)) $((8 * granularity))
clamped=$((4294967295 / granularity * granularity))
((clamped > most)) && clamped=$most
accept "$file" $((4294967295 / granularity * granularity)) "$clamped"
accept "$file" 0 0
accept "$file" $((8 * granularity)) $((8 * granularity))

# --- write_cache: what the text begins with
file=$(path write_cache)
accept "$file" 'write through' 'write through'
accept "$file" 'write back\n' 'write back'
accept "$file" 'none' 'write through'
accept "$file" 'write backxyz' 'write back'
accept "$file" 'noneX' 'write through'
accept "$file" 'write back' 'write back'
accept "$file" 'write through \n' 'write through'
for text in 'write  back' 'writeback' '1' '0' 'Write back' ' write back' 'write' '\n'; do
  refuse EINVAL "$file" "$text"
done
accept "$file" 'write back' 'write back'

# --- flags: any number that is not 0 is 1
for name in rotational iostats add_random stable_writes; do
  file=$(path "$name")
  [[ -e $file ]] || continue
  before=$(<"$file")
  accept "$file" 0 0
  accept "$file" 1 1
  accept "$file" 2 1
  accept "$file" '4294967295\n' 1
  accept "$file" '+0' 0
  for text in -1 x '\n' ' 1' 4294967296; do refuse EINVAL "$file" "$text"; done
  accept "$file" "$before" "$before"
done

# --- rq_affinity: other numbers are accepted and ignored
file=$(path rq_affinity)
for text in 0 1 2; do accept "$file" "$text" "$text"; done
accept "$file" 7 2
accept "$file" 1 1
refuse EINVAL "$file" x

# --- read_ahead_kb: rounded down to pages
file=$(path read_ahead_kb)
if [[ -e $file ]]; then
  accept "$file" 128 128
  accept "$file" 1 0
  accept "$file" 5 4
  accept "$file" 4 4
  refuse EINVAL "$file" -1
fi

# --- write_zeroes_unmap_max_bytes: 0 or exactly the hardware value
file=$(path write_zeroes_unmap_max_bytes)
if [[ -e $file ]]; then
  most=$(<"$(path write_zeroes_unmap_max_hw_bytes)")
  accept "$file" 0 0
  accept "$file" "$most" "$most"
  refuse EINVAL "$file" 4095
fi

# --- io_poll: always refused without poll queues; io_poll_delay: anything, ignored
file=$(path io_poll)
if [[ -e $file ]]; then for text in 0 1 x; do refuse EINVAL "$file" "$text"; done; fi
file=$(path io_poll_delay)
if [[ -e $file ]]; then
  accept "$file" 5 -1
  accept "$file" rubbish -1
fi

# --- events_poll_msecs: no polling support
file=$tree/d0/events_poll_msecs
if [[ -e $file ]]; then
  for text in -1 0 2000; do refuse ENODEV "$file" "$text"; done
  for text in -2 x; do refuse EINVAL "$file" "$text"; done
fi

# --- scheduler (section 4): the list, the names, the cut at 15 characters, the prefix "none"
file=$(path scheduler)
matches "the list" '^\[none\]( [a-z-]+)* $' "$(<"$file")"
probes "$(sed 's/$/\\n/' "$file")" read "$file" 100
list=$(<"$file")
for text in 'none' 'none\n' ' none \n' '\tnone\t\n' 'none\n\n' 'none            ' 'nonesuch' 'none-x'; do
  accept "$file" "$text" "$list"
done
for text in 'abc' 'noop' '[none]' 'NONE' 'non' '\n' ' ' '                none' 'mq-deadlinexyz' \
  'MQ-DEADLINE' 'x none'; do
  refuse EINVAL "$file" "$text"
done
# names that are known, but not built yet, are refused like unknown ones
for name in mq-deadline kyber bfq; do
  if [[ " $list" != *" $name "* ]]; then refuse EINVAL "$file" "$name"; fi
done
# "none" while none is active is a full switch: nr_requests shows the hardware depth again
accept "$(path nr_requests)" 64 64
accept "$file" none "$list"
equal "nr_requests after a switch" 128 "$(<"$(path nr_requests)")"

# --- limits survive a switch
accept "$(path max_sectors_kb)" 256 256
accept "$(path nomerges)" 2 2
accept "$file" none "$list"
equal "max_sectors_kb" 256 "$(<"$(path max_sectors_kb)")"
equal "nomerges" 2 "$(<"$(path nomerges)")"

# --- iostats 0 freezes stat
accept "$(path iostats)" 0 0
before=$(<"$tree/d0/stat")
probes "ok 4096" put "$dir/dev/d0" 0 4096 0 1
equal "stat with iostats 0" "$before" "$(<"$tree/d0/stat")"
accept "$(path iostats)" 1 1
probes "ok 4096" put "$dir/dev/d0" 0 4096 0 1
check_not "stat with iostats 1 stands still" test "$before" == "$(<"$tree/d0/stat")"

# --- stores while I/O runs
if command -v fio >/dev/null; then
  (cd "$work" && exec fio --name=load --filename="$dir/dev/d0" --ioengine=libaio --iodepth=32 \
    --direct=1 --rw=randrw --bs=4k --size=32m --time_based --runtime=60 --output=/dev/null) &
  load=$!
  running+=("$load")
  has_work() { (($(stat_field d0 1) > 100)); }
  wait_for 20 has_work || die "fio does not proceed"
  for round in {1..20}; do
    accept "$(path nr_requests)" $((4 + round)) $((4 + round))
    accept "$(path max_sectors_kb)" $((4 * round)) $((4 * round))
    accept "$(path nomerges)" $((round % 3)) $((round % 3))
    accept "$(path scheduler)" none
  done
  kill -INT "$load"
  check "fio ends" wait_for 20 gone "$load"
  idle() { [[ $(<"$tree/d0/inflight") == "       0        0" ]] && field_is d0 9 0; }
  check "nothing stays in flight" wait_for 10 idle
fi

stop_elevd
equal "exit status" 0 "$elevd_status"
finish
