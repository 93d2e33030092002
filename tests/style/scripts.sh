#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Scripts parse, and shellcheck has nothing to say about them.
. "$(dirname "$0")/lib.sh"
mapfile -t scripts < <(files '*.sh' tests/run .ci/run packaging/quickstart packaging/dependencies)
for script in "${scripts[@]}"; do
  bash -n "$script" || fail "$script does not parse"
done
command -v shellcheck >/dev/null || skip "no shellcheck"
printf '%s\n' "${scripts[@]}" |
  xargs -d '\n' -n 8 -P "$(nproc)" shellcheck -x -P SCRIPTDIR -e SC1091,SC2119,SC2317 ||
  fail "findings of shellcheck"
finish
