#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# elevctl list, get and set on a live tree. Statuses: 0, 1 a store was refused (the errno in words),
# 2 wrong usage.
. "$(dirname "$0")/lib.sh"
need_fuse

start_elevd --disk fast=ram:16M,scheduler=none,nr_requests=64 --disk slow=ram:8M,iosched/fifo_batch=2
ctl() { timeout 20 "$ELEVD_BIN/elevctl" -d "$dir" "$@"; }

equal "a tunable of the configuration" 2 "$(ctl get slow iosched/fifo_batch)"

list=$(ctl list)
equal "status of list" 0 $?
matches "list" 'fast' "$list"
matches "list" 'slow' "$list"

equal "status of get" 0 "$(status_of ctl get fast nr_requests)"
matches "get" '(^|[^0-9])64$' "$(ctl get fast nr_requests)"
matches "get two" '64' "$(ctl get fast nr_requests scheduler)"
matches "get two" '\[none\]' "$(ctl get fast nr_requests scheduler)"

equal "status of set" 0 "$(status_of ctl set fast nr_requests=32 nomerges=2)"
equal "nr_requests" 32 "$(<"$(queue fast nr_requests)")"
equal "nomerges" 2 "$(<"$(queue fast nomerges)")"
equal "status of a refused set" 1 "$(status_of ctl set fast nr_requests=100000)"
matches "its message" 'nr_requests' "$(<"$work/output")"
matches "its message" '[Ii]nvalid argument' "$(<"$work/output")"
equal "nr_requests" 32 "$(<"$(queue fast nr_requests)")"
check_not "a set of a read-only file" ctl set fast max_hw_sectors_kb=4 2>/dev/null
check_not "a set of an unknown file" ctl set fast nonsense=4 2>/dev/null
check_not "a get of an unknown disk" ctl get nowhere nr_requests 2>/dev/null
equal "status of wrong usage" 2 "$(status_of ctl set fast nr_requests)"
equal "status of wrong usage" 2 "$(status_of ctl frobnicate)"
equal "status of wrong usage" 2 "$(status_of ctl)"

equal "status with ELEVD_DIR" 0 \
  "$(status_of env ELEVD_DIR="$dir" timeout 20 "$ELEVD_BIN/elevctl" get fast nomerges)"
stop_elevd
check_not "elevctl without a daemon" ctl list 2>/dev/null
finish
