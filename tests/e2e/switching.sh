#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random scheduler switches and changes of nr_requests and async_depth under four verifying jobs:
# nothing is lost, nothing hangs, no store is refused because of the one before it.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
changes=${ELEVD_TEST_CHANGES:-1000}
seed=${ELEVD_SEED:-$RANDOM}
echo "seed $seed, $changes changes"
RANDOM=$seed
make_image "$work/image" 64
start_elevd --disk d0="$work/image" --disk d1=ram:64M

load() {  # DISK: writes and verifies again and again until it is told to stop
  local round=0
  while [[ ! -e $work/enough ]]; do
    round=$((round + 1))
    run_fio 120 --name="$1" --filename="$dir/dev/$1" --rw=randwrite --bsrange=4k-64k --size=4m \
      --offset_increment=4m --numjobs=4 --ioengine=io_uring --iodepth=16 --serialize_overlap=1 \
      --direct=1 --verify=crc32c --verify_fatal=1 --randseed=$((seed + round)) || return 1
  done
  echo "$round" >"$work/rounds.$1"
}
load d0 &
loads=($!)
load d1 &
loads+=($!)

# What is stored and what comes of it, known beforehand: nobody else changes a scheduler.
declare -A scheduler=([d0]=mq-deadline [d1]=mq-deadline)
read -r -a schedulers < <(tr -d "[]" <"$(queue d0 scheduler)")
for ((i = 0; i < changes; ++i)); do
  disk=d$((RANDOM % 2))
  outcome=ok
  case $((RANDOM % 4)) in
    0 | 1)
      scheduler[$disk]=${schedulers[RANDOM % ${#schedulers[@]}]}
      line="$(queue $disk scheduler) ${scheduler[$disk]}"
      ;;
    2) line="$(queue $disk nr_requests) $((RANDOM % 125 + 4))" ;;
    3)
      line="$(queue $disk async_depth) $((RANDOM % 128 + 1))"
      if [[ ${scheduler[$disk]} == none ]]; then outcome=EINVAL; fi
      ;;
  esac
  echo "$line" >>"$work/stores"
  echo "$outcome" >>"$work/outcomes"
done
# In a process of its own: a store that hangs would hang this shell.
check "every store is answered" timeout 240 "$probe" write-each <"$work/stores" >"$work/answers"
check "as it should be" diff "$work/outcomes" "$work/answers"
for disk in d0 d1; do
  matches "the scheduler of $disk" "\\[${scheduler[$disk]}\\]" "$(<"$(queue $disk scheduler)")"
done
touch "$work/enough"
for pid in "${loads[@]}"; do
  check "a load verifies what it wrote" wait "$pid"
done
echo "rounds: $(<"$work/rounds.d0") and $(<"$work/rounds.d1")"
equal "in flight on d0" 0 "$(stat_field d0 9)"
equal "in flight on d1" 0 "$(stat_field d1 9)"
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
