#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The top folder holds these entries and no others; scripts can be run; nothing large or built is in.
. "$(dirname "$0")/lib.sh"
allowed=' .ci .clang-format .clang-tidy .gitignore CHANGELOG.md CMakeLists.txt CMakePresets.json CONTRIBUTING.md LICENSE README.md config daemon docs man packaging sched sysfs tests '
while IFS= read -r entry; do
  [[ $allowed == *" $entry "* ]] || fail "unexpected top-level entry: $entry"
done < <(files | cut -d/ -f1 | sort -u)
for entry in README.md CONTRIBUTING.md CHANGELOG.md LICENSE docs/architecture.md docs/spec .ci/run; do
  [[ -e $entry ]] || fail "missing: $entry"
done
while IFS= read -r file; do
  [[ -x $file ]] || fail "$file has #! but no execute bit"
done < <(files | xargs -r -d '\n' awk 'FNR == 1 { if (/^#!/) print FILENAME; nextfile }')
while read -r size file; do
  ((size <= 262144)) || fail "$file has $size bytes"
done < <(files | xargs -r -d '\n' stat -c '%s %n')
finish
