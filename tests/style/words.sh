#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No file depends on, or speaks of, the machine it was written on: absolute paths of a developer,
# build folders outside the tree, names of private tools and folders. The tree has no tabs in
# sources, no trailing blanks, no conflict marks.
. "$(dirname "$0")/lib.sh"

# Written so that this file does not match itself.
private='[/](work|home|root|Users)/|/tmp/[b](rief|-)|[.]library\b|[s]ub-?agent|[i]ssues show|[s]hared/(spec|design|examples)'
while IFS= read -r line; do
  fail "private word: $line"
done < <(files | xargs -r -d '\n' grep -nIE "$private")

while IFS= read -r line; do
  fail "trailing blank, tab or conflict mark: $line"
done < <(files '*.hpp' '*.cpp' '*.sh' '*.cmake' '*CMakeLists.txt' tests/run packaging |
  xargs -r -d '\n' grep -nIE '[[:blank:]]$|^(<<<<<<<|>>>>>>>) |'$'\t')
finish
