#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What an I/O costs in system calls: a read of /dev/fuse, the writev of its answer, and one io_uring_enter
# for all that a turn of the loop has for the kernel; over a ring that one alone. Nothing else grows with the
# number of requests.
# docs/spec/fuse.md section 7, docs/architecture.md "The way of one write".
. "$(dirname "$0")/lib.sh"
need_fuse
need fio strace
if ldd "$ELEVD_BIN/elevd" | grep -q 'lib[at]san'; then skip "a sanitizer makes calls of its own"; fi
strace -f -o /dev/null true 2>/dev/null || skip "strace cannot be used here"
make_image "$work/image" 64
start_elevd --disk file="$work/image" --disk ram=ram:64M

traced() { ! grep -qx "TracerPid:.0" "/proc/$elevd_pid/task"/*/status; }
calls() { grep -cE "^[0-9]+ +$1\\(" "$work/calls"; }  # NAME-PATTERN: how often it was begun
requests() { awk '{ print $1 + $2 + $5 + $6 }' "$tree/$1/stat"; }  # DISK: merged ones, too

trace_load() {  # DISK ORDER BLOCK SIZE DEPTH: sets `asked` to the requests in the meantime
  local before tracer
  before=$(requests "$1")
  strace -f -q -o "$work/calls" -p "$elevd_pid" 2>"$work/strace.err" &
  tracer=$!
  running+=("$tracer")
  wait_for 20 traced || die "strace does not come: $(<"$work/strace.err")"
  check "fio $*" run_fio 100 --name=load --filename="$dir/dev/$1" --rw="$2" --bs="$3" --size="$4" \
    --ioengine=libaio --iodepth="$5" --direct=1 --thread
  kill -INT "$tracer"
  wait_for 20 gone "$tracer" || die "strace does not end"
  asked=$(($(requests "$1") - before))
}

# foreign NAME-PATTERN: how often a thread made another call than those between two io_uring_enter: what a
# turn of the loop costs, turn by turn.
foreign() {
  awk -v allowed="^(io_uring_enter${1:+|$1})\\(" '
    $2 !~ /^[a-z0-9_]+\(/ { next }  # a signal, or the rest of a call that is there already
    $2 ~ /^io_uring_enter\(/ { sum += pending[$1]; pending[$1] = 0; entered[$1] = 1; next }
    entered[$1] && $2 !~ allowed { pending[$1]++ }
    END { print sum + 0 }' "$work/calls"
}

# Opening the file, and what the kernel asks then, costs some calls of all kinds; a timer now and then.
some=100
for disk in ram file; do
  for scheduler in none mq-deadline kyber; do
    accept "$(queue "$disk" scheduler)" "$scheduler"
    # Depth 1: a turn for the request, and one for its completion where there is a device.
    kinds=("randread 4k 4m 1" "randread 4k 16m 32")
    [[ $scheduler == none ]] && kinds+=("randwrite 4k 16m 32" "read 512k 64m 8" "write 512k 64m 8")
    for kind in "${kinds[@]}"; do
      read -r order block size depth <<<"$kind"
      what="$disk, $scheduler, $order, $block, depth $depth"
      trace_load "$disk" "$order" "$block" "$size" "$depth"
      answers=$(calls writev) reads=$(calls read) enters=$(calls io_uring_enter)
      other=$(($(calls '[a-z0-9_]+') - answers - reads - enters))
      # Over a ring requests come and go with io_uring_enter itself.
      between=$(foreign "$([[ $(transport_of "$disk") == uring ]] || echo "read|writev")")
      echo "$what: $asked requests, $reads read, $answers writev, $enters io_uring_enter, $other others," \
        "$between between two io_uring_enter"
      compare "answers, $what" "$answers" -le $((asked + some))
      # The read that finds nothing more comes once a turn.
      compare "reads, $what" "$reads" -le $((asked + enters + some))
      # Many at once share turns; how many a turn of few has is up to the rest of the machine.
      if ((depth < 32)); then
        compare "turns, $what" "$enters" -le $((2 * asked + some))
      else
        compare "turns, $what" "$enters" -le $((asked / 2 + some))
      fi
      compare "other calls, $what" "$other" -le "$some"
      compare "calls between two io_uring_enter, $what" "$between" -le "$some"
    done
  done
done
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
