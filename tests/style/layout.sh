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
  if head -c 2 "$file" | grep -q '^#!' && [[ ! -x $file ]]; then fail "$file has #! but no execute bit"; fi
  size=$(stat -c %s "$file")
  ((size <= 262144)) || fail "$file has $size bytes"
done < <(files)
finish
