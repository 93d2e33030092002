#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Shares of cgroups under bfq: two sequential readers, each in a cgroup of its own, on a device with one
# head. Weights 1:2 come from the configuration file, 1:1 from a live store.
# docs/spec/bfq.md sections 13 and 21, T8; docs/architecture.md "Concurrency rules", rule 15.
. "$(dirname "$0")/lib.sh"
need_fuse
need_root
need fio

# Where cgroups count for block I/O: the hierarchy of blkio, else version 2.
root=$(awk '/ - cgroup .*[, ]blkio(,|$)/ { print $5; exit }' /proc/self/mountinfo)
[[ -n $root ]] || root=$(awk '/ - cgroup2 / { print $5; exit }' /proc/self/mountinfo)
[[ -n $root ]] || skip "no cgroups"
groups=()

remove_groups() {  # and then what every case does at its end
  local status=$? group pid
  for group in "${groups[@]}"; do
    while read -r pid; do end_process "$pid" 3; done <"$group/cgroup.procs"
    wait_for 5 rmdir "$group" 2>/dev/null || echo "note: $group stays"
  done
  (exit "$status")
  clean_up
}
trap remove_groups EXIT

in_group() {  # DIRECTORY COMMAND...
  local group=$1
  shift
  (echo "$BASHPID" >"$group/cgroup.procs" && exec "$@")
}

for name in light heavy; do
  group=$root/elevd-test-$name-$$
  mkdir "$group" 2>/dev/null || skip "no cgroup can be made in $root"
  groups+=("$group")
  in_group "$group" true 2>/dev/null || skip "no process can be put into $group"
  paths+=("$(in_group "$group" cat /proc/self/cgroup |
    awk -F: '$2 ~ /(^|,)blkio(,|$)/ { found = $3 } $1 == 0 && second == "" { second = $3 }
             END { print found != "" ? found : second }')")
done

cat >"$work/elevd.toml" <<END
[disk.d0]
backing = "ram:256M"
scheduler = "bfq"
model = "seek"
model_sequential = "1ms"
model_random = "3ms"
queue.rotational = 1
group_weights = { "${paths[1]}" = 200 }
END
start_elevd --config "$work/elevd.toml"
check "the disk is served" wait_for 10 served d0
accept "$(queue d0 iosched/low_latency)" 0
accept "$(queue d0 iosched/strict_guarantees)" 1
accept "$(queue d0 iosched/max_budget)" 2048
weights=$(queue d0 iosched/group_weights)
equal "weights of the file" $'default 100\n'"${paths[1]} 200" "$(<"$weights")"

share() {  # sets share: permille that the heavy group's reader got
  local n jobs=() kib=()
  for n in 0 1; do
    # A big reader that both are ended with, so that both run for the same time.
    in_group "${groups[n]}" fio --name=reader --filename="$dir/dev/d0" --rw=read --bs=128k --ioengine=libaio \
      --iodepth=8 --direct=1 --offset=$((n * 128))m --size=128m --time_based --runtime=4 \
      --output-format=terse --output="$work/reader$n" </dev/null >/dev/null 2>&1 &
    jobs+=($!)
  done
  for n in 0 1; do
    check "reader $n" wait "${jobs[n]}"
    kib+=("$(awk -F';' 'NF > 10 { print $6 }' "$work/reader$n")")
  done
  share=$((1000 * kib[1] / (kib[0] + kib[1])))
}

share
echo "permille of the group of weight 200 against 100: $share"
compare "twice the weight" "$share" -ge 633
compare "twice the weight" "$share" -le 700
accept "$weights" "${paths[1]} 100"
share
echo "permille with equal weights: $share"
compare "equal weights" "$share" -ge 465
compare "equal weights" "$share" -le 535

refuse ERANGE "$weights" "${paths[0]} 1001"
refuse EINVAL "$weights" "nowhere 100"
accept "$weights" "${paths[1]} default" "default 100"
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
