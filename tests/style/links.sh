#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The links of the documents lead to files that exist.
. "$(dirname "$0")/lib.sh"
while IFS= read -r file; do
  while IFS= read -r link; do
    target=${link%%#*}
    [[ -z $target || $target == *://* ]] && continue
    [[ -e $(dirname "$file")/$target ]] || fail "$file links to $target, which does not exist"
  done < <(grep -oP '\]\(\K[^) ]+' "$file")
done < <(files '*.md')
finish
