#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fio writes and verifies on a disk in memory: three engines, all sizes, orders and job counts.
. "$(dirname "$0")/lib.sh"
need_fuse
need fio
start_elevd --disk d0=ram:128M,scheduler=none
for engine in libaio io_uring psync; do fio_matrix d0 "$engine"; done
equal "in flight afterwards" 0 "$(stat_field d0 9)"
compare "reads were counted" "$(stat_field d0 1)" -gt 0
compare "writes were counted" "$(stat_field d0 5)" -gt 0
stop_elevd
equal "exit status" 0 "$elevd_status"
finish
