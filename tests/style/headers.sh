#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each header compiles alone: what it uses, it includes. One with a source of the same name is the
# first that it includes, so the release build, which has no precompiled headers and no unity, shows
# it; the others are compiled here.
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
alone=()
for header in "${headers[@]}"; do
  source=${header%.hpp}.cpp
  if [[ ! -e $source ]]; then
    alone+=("$header")
  elif ! grep -m 1 '^#include' "$source" | grep -qE "\"(${header%%/*}/)?${header##*/}\""; then
    echo "FAILED: $source includes something before $header"
    failures=$((failures + 1))
  fi
done
printf '%s\n' "${alone[@]}" |
  xargs -P "$(nproc)" -I '{}' bash -c 'compile_alone "$@"' - '{}' "${flags[@]}" ||
  failures=$((failures + 1))
finish
