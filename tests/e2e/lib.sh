# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2119,SC2120,SC2317
# What every end-to-end case starts with: `. "$(dirname "$0")/lib.sh"`.
#
# A case gets its own directory, a time limit after which it is ended and cleaned up, and checks
# that count failures and go on. It ends with `finish`. Nothing waits for a time: wait_for polls a
# condition until a deadline.
#
# Variables of the environment (set by ctest):
#   ELEVD_BIN         folder of elevd and elevctl
#   ELEVD_HELPERS     folder of file_probe and stall_fuse
#   ELEVD_CASE_LIMIT  seconds until the case is ended (default 240)
#   ELEVD_TEST_DIR    where to work: a file system with O_DIRECT (default /var/tmp)
#   ELEVD_TEST_SHORT  1: a smaller load with the same checks
#   ELEVD_TEST_TRANSPORT  how start_elevd has the kernel reached: dev or uring (default: auto)
# Variables for the case: work (its directory), dir (DIR of the daemon), log (the daemon's log),
# elevd_pid, elevd_status (of the last stop_elevd), probe, tree (sys/block of DIR), short.
set -u -o pipefail

# Under `timeout` the whole process group gets SIGTERM when the time is over, so that a command in
# the foreground ends too and the trap below runs.
if [[ -z ${ELEVD_CASE_STARTED:-} ]]; then
  export ELEVD_CASE_STARTED=1
  exec timeout --signal=TERM --kill-after=30 "${ELEVD_CASE_LIMIT:-240}" bash "$0" "$@"
fi

export LC_ALL=C
: "${ELEVD_BIN:?folder of elevd}" "${ELEVD_HELPERS:?folder of the helpers}"
short=${ELEVD_TEST_SHORT:-0}
probe=$ELEVD_HELPERS/file_probe
failures=0
checks=0
running=()  # processes of this case, in the order they were started
stalls=()   # control sockets of stalling file systems
loops=()    # loop devices, detached at the end
elevd_pid=
elevd_status=
elevd_environment=()  # NAME=VALUE for start_elevd

skip() {
  echo "SKIP: $(basename "$0" .sh): $*"
  exit 77
}

fail() {
  failures=$((failures + 1))
  local text="$*"
  echo "FAILED (line ${BASH_LINENO[${#BASH_LINENO[@]}-2]}): ${text:0:500}"
}

die() {  # for what makes the rest of the case senseless
  fail "$@"
  exit 1
}

# --- clean up, registered before anything is started ------------------------------------------

mounts_below() {  # mount points below the directory $1, innermost and latest first
  awk -v root="$1/" 'index($5, root) == 1 { print $5 }' /proc/self/mountinfo | tac
}

alive() { kill -0 "$1" 2>/dev/null; }

end_process() {  # PID SECONDS: asks, waits, kills
  alive "$1" || return 0
  kill -TERM "$1" 2>/dev/null
  wait_for "$2" gone "$1" && return 0
  kill -KILL "$1" 2>/dev/null
  wait_for 5 gone "$1"
}

gone() { ! alive "$1"; }

show_log() {
  [[ -s $log ]] || return 0
  echo "--- log of the daemon (end)"
  tail -n 40 "$log"
  echo "---"
}

# What no run may leave in a log: reports of the sanitizers, failed assertions, uncaught exceptions.
log_is_clean() {
  ! grep -nE 'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error: |[Aa]ssertion|terminate called' \
    "$work"/*.log
}

clean_up() {
  local status=$? index mount socket loop
  trap - EXIT INT TERM HUP
  for socket in "${stalls[@]}"; do
    timeout 5 "$ELEVD_HELPERS/stall_fuse" --control "$socket" release all >/dev/null 2>&1
  done
  for ((index = ${#running[@]} - 1; index >= 0; index--)); do
    if [[ ${running[index]} == "$elevd_pid" ]]; then
      end_process "${running[index]}" 15
    else
      end_process "${running[index]}" 3
    fi
  done
  for loop in "${loops[@]}"; do losetup -d "$loop" 2>/dev/null; done
  while IFS= read -r mount; do
    umount "$mount" 2>/dev/null || umount -l "$mount" 2>/dev/null || fusermount3 -uzq "$mount"
  done < <(mounts_below "$work")
  if ! log_is_clean; then
    echo "FAILED: the log above"
    status=1
  fi
  if ((status != 0 && status != 77)); then show_log; fi
  if [[ -n $(mounts_below "$work") ]]; then
    echo "FAILED: still mounted: $(mounts_below "$work")"
    status=1
  else
    rm -rf --one-file-system "$work"
  fi
  exit "$status"
}

work=$(mktemp -d "${ELEVD_TEST_DIR:-/var/tmp}/elevd-test.XXXXXX") || exit 1
work=$(realpath "$work")
dir=$work/dir
log=$work/elevd.log
tree=$dir/sys/block
: >"$log"
trap clean_up EXIT
trap 'echo "FAILED: ended by a signal (time limit?)"; exit 1' INT TERM HUP

# --- checks -------------------------------------------------------------------------------------

finish() {
  echo "$(basename "$0" .sh): $checks checks, $failures failures"
  ((checks > 0)) || die "a case without checks"
  ((failures == 0))
  exit
}

wait_for() {  # SECONDS COMMAND...: until the command succeeds; fails at the deadline
  local deadline=$((${EPOCHREALTIME/./} + $1 * 1000000))
  shift
  until "$@"; do
    ((${EPOCHREALTIME/./} < deadline)) || return 1
    sleep 0.01
  done
}

check() {  # WHAT COMMAND...: the command succeeds
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" || fail "$what: \"$*\" ended with status $?"
}

check_not() {  # WHAT COMMAND...: the command fails
  local what=$1
  shift
  checks=$((checks + 1))
  if "$@"; then fail "$what: \"$*\" succeeded"; fi
}

equal() {  # WHAT EXPECTED ACTUAL
  checks=$((checks + 1))
  [[ $2 == "$3" ]] || fail "$1: expected \"$2\", got \"$3\""
}

matches() {  # WHAT PATTERN ACTUAL: an extended regular expression
  checks=$((checks + 1))
  [[ $3 =~ $2 ]] || fail "$1: expected a match of \"$2\", got \"$3\""
}

compare() {  # WHAT A OPERATOR B: integers, operators of test (-le, -gt, ...)
  checks=$((checks + 1))
  test "$2" "$3" "$4" || fail "$1: $2 $3 $4 is false"
}

status_of() {  # COMMAND...: prints the exit status; output goes to $work/output
  "$@" >"$work/output" 2>&1
  echo $?
}

probes() {  # EXPECTED PROBE-ARGUMENTS...: what file_probe prints
  local expected=$1 actual
  shift
  actual=$(timeout 20 "$probe" "$@" 2>&1)
  checks=$((checks + 1))
  [[ $actual == "$expected" ]] || fail "$*: expected \"$expected\", got \"$actual\""
}

accept() {  # FILE TEXT [VALUE]: one store that succeeds, then the file reads VALUE
  local text actual
  actual=$(timeout 20 "$probe" write "$1" "$2")
  checks=$((checks + 1))
  [[ $actual == ok* ]] || fail "store \"$2\" to ${1#"$dir"/}: $actual"
  if (($# > 2)); then
    text=$(<"$1")
    [[ $text == "$3" ]] || fail "${1#"$dir"/} after \"$2\": expected \"$3\", got \"$text\""
  fi
}

refuse() {  # ERRNO FILE TEXT: one store that fails with that error and changes nothing
  local before after
  before=$(<"$2")
  probes "$1" write "$2" "$3"
  after=$(<"$2")
  [[ $after == "$before" ]] || fail "${2#"$dir"/} changed from \"$before\" to \"$after\""
}

# --- the daemon -----------------------------------------------------------------------------------

is_mounted() {  # PATH
  awk -v at="$1" '$5 == at { found = 1 } END { exit !found }' /proc/self/mountinfo
}

need_fuse() {
  [[ -c /dev/fuse ]] || skip "no /dev/fuse"
  ((EUID == 0)) || command -v fusermount3 >/dev/null || skip "neither root nor fusermount3"
}

need() {  # TOOL...
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null || skip "no $tool"
  done
}

need_root() { ((EUID == 0)) || skip "needs root"; }

all_mounted() {  # DIR NAME...
  local at=$1 name
  shift
  is_mounted "$at/sys" || return 1
  for name in "$@"; do
    is_mounted "$at/dev/$name" || return 1
  done
}

served() {  # NAME...: mounted, and not by a daemon that was killed: those answer ENOTCONN
  local name
  all_mounted "$dir" "$@" || return 1
  for name in "$@"; do
    read -r _ 2>/dev/null <"$tree/$name/stat" || return 1
  done
}

ready_or_dead() { gone "$elevd_pid" || served "$@"; }

start_elevd() {  # elevd arguments without DIR; returns when every disk is mounted
  local names=() argument previous=
  for argument in "$@"; do
    if [[ $previous == --disk ]]; then names+=("${argument%%=*}"); fi
    previous=$argument
  done
  mkdir -p "$dir"
  # Background processes of a script ignore SIGINT; the daemon must not inherit that.
  env --default-signal=INT "${elevd_environment[@]}" "$ELEVD_BIN/elevd" "$dir" \
    ${ELEVD_TEST_TRANSPORT:+--transport "$ELEVD_TEST_TRANSPORT"} "$@" </dev/null >>"$log" 2>&1 &
  elevd_pid=$!
  running+=("$elevd_pid")
  wait_for 30 ready_or_dead "${names[@]}" || die "elevd is not ready after 30 s: elevd $*"
  served "${names[@]}" || die "elevd ended at its start: elevd $*"
}

stop_elevd() {  # [SIGNAL [SECONDS]]: sets elevd_status; a daemon that does not end is a failure
  kill "-${1:-TERM}" "$elevd_pid"
  if ! wait_for "${2:-20}" gone "$elevd_pid"; then
    show_log
    die "elevd did not end within ${2:-20} s of SIG${1:-TERM}"
  fi
  wait "$elevd_pid" 2>/dev/null
  elevd_status=$?
}

transport_of() { sed -n "s/.* $1: .*, transport //p" "$log" | tail -n 1; }  # DISK: dev or uring

queue() { echo "$tree/$1/queue/$2"; }  # DISK ATTRIBUTE: its path

stat_field() {  # DISK NUMBER: of spec/sysfs.md section 7, from 1
  awk -v field="$2" '{ print $field }' "$tree/$1/stat"
}

field_is() { [[ $(stat_field "$1" "$2") == "$3" ]]; }  # DISK NUMBER VALUE

# --- a backing that holds its answers -----------------------------------------------------------

# make_image FILE MIB: of zeroes that are there, not of holes: first writes into holes wait for the journal.
make_image() { dd if=/dev/zero of="$1" bs=1M count="$2" oflag=direct status=none || die "no space for $1"; }

# start_stall NAME SIZE-IN-BYTES: mounts the file $work/NAME; `stall NAME COMMAND...` controls it.
start_stall() {
  : >"$work/$1"
  "$ELEVD_HELPERS/stall_fuse" "$work/$1" "$2" "$work/$1.control" \
    </dev/null >>"$work/stall.log" 2>&1 &
  running+=($!)
  stalls+=("$work/$1.control")
  wait_for 30 stall_answers "$1" || die "the stalling file system did not start"
}

stall_answers() { is_mounted "$work/$1" && [[ $(stall "$1" held 2>/dev/null) == 0 ]]; }

stall() {
  local name=$1
  shift
  timeout 10 "$ELEVD_HELPERS/stall_fuse" --control "$work/$name.control" "$@"
}

held_is() { [[ $(stall "$1" held) == "$2" ]]; }  # NAME NUMBER

# --- file systems and devices of a case ----------------------------------------------------------

# mount_fs NAME TYPE [OPTIONS]: mounts an empty file system of memory on $work/NAME. Fails, with a note,
# where that is not allowed.
mount_fs() {
  mkdir -p "$work/$1"
  mount -t "$2" ${3:+-o "$3"} elevd-test "$work/$1" 2>"$work/mount.err" && return 0
  echo "note: no $2 here: $(<"$work/mount.err")"
  return 1
}

# attach_loop FILE [losetup options]: sets $loop to a new loop device over FILE, which is gone after the
# case. Fails, with a note, where that is not allowed.
attach_loop() {
  local file=$1
  shift
  loop=$(losetup --find --show "$@" "$file" 2>"$work/losetup.err") && loops+=("$loop") && return 0
  echo "note: no loop device here: $(<"$work/losetup.err")"
  return 1
}

# --- fio ----------------------------------------------------------------------------------------

run_fio() {  # SECONDS fio-arguments...: in $work, quiet unless it fails
  local limit=$1
  shift
  (cd "$work" && timeout --kill-after=10 "$limit" fio --output="$work/fio.out" "$@" \
    >"$work/fio.err" 2>&1) && return 0
  cat "$work/fio.out" "$work/fio.err"
  return 1
}

# fio_reads PERCENT: the latency within which so many percent of the reads of the last run_fio with
# --output-format=terse came back, in microseconds; a number that fio has by default (50, 90, 99, ...).
fio_reads() {
  awk -F';' -v key="$1.000000%=" '{
    for (field = 1; field <= NF; ++field) {
      if (index($field, key) == 1) { print substr($field, length(key) + 1); exit }
    }
  }' "$work/fio.out"
}

# fio_matrix DISK ENGINE: writes and verifies, every size x order x number of jobs, one after another.
fio_matrix() {
  local file=$dir/dev/$1 engine=$2 size order jobs depth per_job job=$work/$1-$2.fio
  local sizes=(4k 64k 512k 1m)
  ((short)) && sizes=(4k 1m)
  {
    cat <<END
[global]
filename=$file
ioengine=$engine
direct=1
verify=crc32c
verify_fatal=1
do_verify=1
thread=0
group_reporting=1
END
    for size in "${sizes[@]}"; do
      for order in write randwrite; do
        for jobs in 1 4; do
          depth=$([[ $engine == psync ]] && echo 1 || echo 16)
          per_job=$([[ $size == 4k ]] && echo 2m || echo 6m)
          ((short)) && per_job=$([[ $size == 4k ]] && echo 1m || echo 4m)
          printf '[%s-%s-%s-%sjobs]\nstonewall\nbs=%s\nrw=%s\nnumjobs=%s\niodepth=%s\n' \
            "$engine" "$size" "$order" "$jobs" "$size" "$order" "$jobs" "$depth"
          printf 'size=%s\noffset_increment=%s\n' "$per_job" "$per_job"
          # Two overlapping requests of one fio job in flight would make its own checksums wrong.
          ((depth > 1)) && echo serialize_overlap=1
        done
      done
    done
  } >"$job"
  check "fio on $1 by $engine" run_fio 200 "$job"
}
