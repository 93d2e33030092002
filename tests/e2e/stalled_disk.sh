#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A stalled disk holds up nobody but its own users. Its backing holds all answers; it is filled from
# every CPU; then, from every CPU and with a time limit: cat anywhere in sys/, stores that do not
# freeze, ls of DIR/dev, I/O on another disk. A store that freezes waits, and ^C ends it.
# docs/spec/fuse.md sections 8.4 and 13.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio taskset
start_stall slow $((256 << 20))
start_elevd --disk stuck="$work/slow",scheduler=none --disk other=ram:16M,scheduler=none \
  --stop-timeout 5s
read -r -a cpus < <(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' |
  awk -F- '{ for (i = $1; i <= (NF > 1 ? $2 : $1); i++) printf "%d ", i }')
compare "CPUs" ${#cpus[@]} -ge 1

# Far more than the 128 tags, from every CPU, asynchronous and synchronous.
stall slow stall >/dev/null
loads=()
for cpu in "${cpus[@]}"; do
  (cd "$work" && exec taskset -c "$cpu" fio --name=async --filename="$dir/dev/stuck" --direct=1 \
    --ioengine=libaio --iodepth=256 --rw=randread --bs=4k --size=256m --number_ios=256 \
    --output=/dev/null) &
  loads+=($!)
  (cd "$work" && exec taskset -c "$cpu" fio --name=sync --filename="$dir/dev/stuck" --direct=1 \
    --ioengine=psync --numjobs=4 --rw=randread --bs=64k --size=256m --number_ios=4 \
    --output=/dev/null) &
  loads+=($!)
done
running+=("${loads[@]}")
check "all tags are taken" wait_for 20 field_is stuck 9 128

within() {  # CPU COMMAND...: the command ends in 5 s on that CPU
  local cpu=$1
  shift
  timeout --kill-after=5 5 taskset -c "$cpu" "$@"
}

mapfile -t files < <(timeout 20 find "$dir/sys" -type f -perm -0400)
compare "files in the tree" ${#files[@]} -gt 60
for cpu in "${cpus[@]}"; do
  check "CPU $cpu: cat of every file" within "$cpu" cat "${files[@]}" >/dev/null
  check "CPU $cpu: ls of the tree" within "$cpu" ls -lR "$dir/sys" >/dev/null
  check "CPU $cpu: ls of DIR/dev" within "$cpu" ls "$dir/dev" >/dev/null
  check "CPU $cpu: ls -l of DIR/dev" within "$cpu" ls -l "$dir/dev" >/dev/null
  for value in 1 2 0; do
    equal "CPU $cpu: nomerges $value" "ok 1" \
      "$(within "$cpu" "$probe" write "$(queue stuck nomerges)" $value)"
  done
  equal "CPU $cpu: rq_affinity" "ok 1" "$(within "$cpu" "$probe" write "$(queue stuck rq_affinity)" 1)"
  equal "CPU $cpu: a refused store" "EINVAL" \
    "$(within "$cpu" "$probe" write "$(queue stuck nr_requests)" junk)"
  equal "CPU $cpu: a store that freezes, on the other disk" "ok 2" \
    "$(within "$cpu" "$probe" write "$(queue other nr_requests)" 64)"
  equal "CPU $cpu: a write on the other disk" "ok 1048576" \
    "$(within "$cpu" "$probe" put "$dir/dev/other" 0 1048576 0 "$cpu")"
  equal "CPU $cpu: a read of the other disk" "ok 1048576" \
    "$(within "$cpu" "$probe" get "$dir/dev/other" 0 1048576 0 "$cpu")"
done
check "fio on the other disk" run_fio 60 --name=other --filename="$dir/dev/other" --direct=1 \
  --ioengine=libaio --iodepth=16 --serialize_overlap=1 --rw=randwrite --bs=4k --size=4m \
  --verify=crc32c

# A store that freezes waits for the requests in flight; meanwhile everything else goes on.
in_write() {  # PID: it sits in write(2), system call 1 (x86-64) or 64 (others)
  local call
  read -r call _ 2>/dev/null <"/proc/$1/syscall" && [[ $call == 1 || $call == 64 ]]
}
interrupted_store() {  # ATTRIBUTE TEXT
  local file store before
  file=$(queue stuck "$1")
  before=$(<"$file")
  "$probe" write "$file" "$2" >"$work/store" &
  store=$!
  running+=("$store")
  if [[ -r /proc/$store/syscall ]]; then
    check "$1: the store is under way" wait_for 5 in_write "$store"
  fi
  for cpu in "${cpus[@]}"; do
    check "CPU $cpu: cat during the store to $1" within "$cpu" cat "${files[@]}" >/dev/null
    equal "CPU $cpu: the other disk during the store to $1" "ok 4096" \
      "$(within "$cpu" "$probe" put "$dir/dev/other" 0 4096 0 1)"
  done
  check "$1: the store waits" alive "$store"
  kill -INT "$store"
  check "$1: ^C ends the store" wait_for 5 gone "$store"
  equal "$1: the answer" "EINTR" "$(<"$work/store")"
  equal "$1: nothing has changed" "$before" "$(<"$file")"
}
interrupted_store nr_requests 64
interrupted_store max_sectors_kb 64
interrupted_store scheduler none

# One that is not interrupted is carried out when the disk moves again. The gate was opened each time:
# the waiting readers go on.
"$probe" write "$(queue stuck nr_requests)" 32 >"$work/store" &
store=$!
running+=("$store")
stall slow release all >/dev/null
check "the store ends" wait_for 20 gone "$store"
equal "the store" "ok 2" "$(<"$work/store")"
equal "nr_requests" 32 "$(<"$(queue stuck nr_requests)")"
for load in "${loads[@]}"; do
  check "a reader ends" wait_for 30 gone "$load"
done
check "nothing in flight" wait_for 5 field_is stuck 9 0
equal "every read was answered, none twice" \
  $((${#cpus[@]} * (256 + 16))) $(($(stat_field stuck 1) + $(stat_field stuck 2)))

stop_elevd
equal "exit status" 0 "$elevd_status"
finish
