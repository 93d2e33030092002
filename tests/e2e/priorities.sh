#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mq-deadline serves the I/O priority class of the submitting thread: three readers, one a class, share a
# device that serves one request at a time. The real-time one gets nearly all; with prio_aging_expire the
# others get their drops. docs/spec/mq-deadline.md sections 2, 9 and 14.
. "$(dirname "$0")/lib.sh"
need_fuse
need_root  # the real-time class
need fio ionice
# More tags than the readers' requests: with the 8 that a depth of 4 gives, they would queue for tags
# instead, where no class counts.
start_elevd --disk \
  d0=ram:64M,model=delay,model_service=300us,model_parallel=1,queue_depth=4,nr_requests=64,scheduler=mq-deadline

share() {  # sets shares: permille of the requests that the reader of each class got
  local job=$work/classes.fio class
  {
    printf '[global]\nfilename=%s\nsize=64m\nrw=randread\nbs=4k\nioengine=libaio\niodepth=8\ndirect=1\n' \
      "$dir/dev/d0"
    printf 'time_based\nruntime=3\nnorandommap\n'
    for class in 1 2 3; do printf '[class%s]\nprioclass=%s\n' "$class" "$class"; done
  } >"$job"
  check "fio" run_fio 60 --output-format=terse "$job"
  # Field 5 of a job's line is the bytes it read, in KiB: its own count, whenever it began.
  mapfile -t shares < <(awk -F';' '/;class[123];/ { kib[++n] = $6; all += $6 }
    END { for (i = 1; i <= n; ++i) print int(1000 * kib[i] / all) }' "$work/fio.out")
  equal "jobs" 3 "${#shares[@]}"
}

accept "$(queue d0 iosched/prio_aging_expire)" 60000 60000
share
echo "permille without aging: ${shares[*]}"
compare "the real-time reader" "${shares[0]}" -ge 950

accept "$(queue d0 iosched/prio_aging_expire)" 100 100
share
echo "permille with aging after 100 ms: ${shares[*]}"
compare "the best-effort reader" "${shares[1]}" -ge 10
compare "the idle reader" "${shares[2]}" -ge 10
compare "the real-time reader is still the first" "${shares[0]}" -gt "${shares[1]}"

# What ionice sets is what counts: a reader of the idle class stands in the lists of that class.
stalled=$dir/sys/kernel/debug/block/d0/device
accept "$stalled" stall
(cd "$work" && exec ionice -c 3 fio --name=idle --filename="$dir/dev/d0" --rw=randread --bs=4k --ioengine=libaio \
  --iodepth=16 --direct=1 --size=64m --number_ios=16 --output=/dev/null) &
running+=($!)
idle_waits() { [[ -n $(<"$dir/sys/kernel/debug/block/d0/sched/read2_fifo_list") ]]; }
check "a reader under ionice -c 3 waits in class 2" wait_for 10 idle_waits
accept "$stalled" "release all"
check "and goes on" wait_for 20 gone "${running[-1]}"
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
