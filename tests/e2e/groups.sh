#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Shares of cgroups under bfq: two sequential readers, each in a cgroup of its own, on a device with one
# head. Weights 1:2 come from the configuration file, 1:1 and 1:10 from a live store.
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

enter() {  # DIRECTORY COMMAND...: this process goes there and becomes the command
  echo "$BASHPID" >"$1/cgroup.procs" && exec "${@:2}"
}
in_group() { (enter "$@"); }

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
model_sequential = "400us"
model_random = "1200us"
queue.rotational = 1
group_weights = { "${paths[1]}" = 200 }
END
start_elevd --config "$work/elevd.toml"
check "the disk is served" wait_for 10 served d0
accept "$(queue d0 iosched/low_latency)" 0
accept "$(queue d0 iosched/strict_guarantees)" 1
accept "$(queue d0 iosched/max_budget)" 2048
# A reader that a busy machine does not let run is waited for, and its slot goes on.
accept "$(queue d0 iosched/slice_idle)" 500
accept "$(queue d0 iosched/timeout_sync)" 2000
weights=$(queue d0 iosched/group_weights)
equal "weights of the file" $'default 100\n'"${paths[1]} 200" "$(<"$weights")"

# What each of two logs of fio (one line a request: Unix time in ms, ...) has of the time that both cover, but for
# the first half second: until then their groups are looked up.
in_common() {
  awk -F, 'FNR == 1 { ++file }
    { at[file, ++count[file]] = $1 }
    END {
      from = (at[1, 1] > at[2, 1] ? at[1, 1] : at[2, 1]) + 500
      to = at[1, count[1]] < at[2, count[2]] ? at[1, count[1]] : at[2, count[2]]
      for (reader = 1; reader <= 2; ++reader) {
        for (n = 1; n <= count[reader]; ++n) had[reader] += at[reader, n] >= from && at[reader, n] < to
      }
      print had[1] + 0, had[2] + 0
    }' "$@"
}

reader() {  # NUMBER SECONDS: sets reader to the command of the one in the group of that number
  reader=(fio --name=reader --filename="$dir/dev/d0" --rw=read --bs=128k --ioengine=libaio --iodepth=8 --direct=1
    --offset=$(($1 * 128))m --size=128m --time_based --runtime="$2" --log_unix_epoch=1
    --write_lat_log="$work/reader$1" --output="$work/reader$1")
}
beyond() { (($(stat_field d0 1) > $1)); }  # READS

shares() {  # WEIGHT: the reader of that weight gets as much more as it is above 100, within 5 %
  local before light heavy thousandths
  # The other one is there for all of the time of the heavy one.
  before=$(stat_field d0 1)
  reader 0 60
  enter "${groups[0]}" "${reader[@]}" </dev/null >/dev/null 2>&1 &
  running+=($!)
  check "the light reader reads" wait_for 20 beyond "$before"
  reader 1 3
  check "the heavy reader" in_group "${groups[1]}" "${reader[@]}" </dev/null >/dev/null
  check "the light reader reads to the end" alive "${running[-1]}"
  end_process "${running[-1]}" 10
  read -r light heavy < <(in_common "$work"/reader{0,1}_lat.1.log)
  ((light >= 100)) || die "the group of weight 100 had $light requests"
  thousandths=$((1000 * heavy / light))
  echo "weights $1 and 100: $heavy and $light requests, ratio $thousandths / 1000"
  compare "weights $1 and 100, from below" "$thousandths" -ge $(($1 * 10 * 95 / 100))
  compare "weights $1 and 100, from above" "$thousandths" -le $(($1 * 10 * 105 / 100))
}

shares 200
accept "$weights" "${paths[1]} 100"
shares 100
accept "$weights" "${paths[1]} 1000"
shares 1000

refuse ERANGE "$weights" "${paths[0]} 1001"
refuse EINVAL "$weights" "nowhere 100"
accept "$weights" "${paths[1]} default" "default 100"
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
