#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each header compiles alone: what it uses, it includes.
. "$(dirname "$0")/lib.sh"
compiler=${CXX:-g++}
read -r -a flags < <(pkg-config --cflags fuse3 liburing libsystemd tomlplusplus | tr '\n' ' ')
export compiler

compile_alone() {
  local header=$1
  shift
  printf '#include "%s"\n' "$header" |
    "$compiler" -std=c++20 -Wall -Wextra -fsyntax-only -I. "$@" -x c++ - 2>&1 ||
    { echo "FAILED: $header does not compile alone"; return 1; }
}
export -f compile_alone

mapfile -t headers < <(files 'sched/*.hpp' 'sysfs/*.hpp' 'config/*.hpp' 'daemon/*.hpp')
((${#headers[@]} > 0)) || skip "no headers yet"
printf '%s\n' "${headers[@]}" |
  xargs -P "$(nproc)" -I '{}' bash -c 'compile_alone "$@"' - '{}' "${flags[@]}" ||
  failures=$((failures + 1))
finish
