#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every C++ file is as clang-format 14 would write it; lines of scripts have at most 120 columns.
. "$(dirname "$0")/lib.sh"

tool=
for name in clang-format-14 clang-format; do
  if command -v "$name" >/dev/null && "$name" --version | grep -q 'version 14\.'; then
    tool=$name
    break
  fi
done
[[ -n $tool ]] || skip "no clang-format 14"
mapfile -t sources < <(files '*.hpp' '*.cpp')
((${#sources[@]} > 0)) || fail "no sources"
# All files at once; the files are named only when something is wrong.
if ! printf '%s\n' "${sources[@]}" |
  xargs -d '\n' -n 32 -P "$(nproc)" "$tool" --dry-run --Werror >/dev/null 2>&1; then
  for file in "${sources[@]}"; do
    "$tool" --dry-run --Werror "$file" >/dev/null 2>&1 || fail "$file (repair: $tool -i $file)"
  done
  ((failures > 0)) || fail "$tool itself"
fi
finish
