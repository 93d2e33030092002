#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A citation in code or documents, `docs/spec/PAGE.md` section N, leads to a page and a section that
# exist. A citation may be broken over two comment lines.
. "$(dirname "$0")/lib.sh"

seen=0
while IFS= read -r file; do
  # One line, comment marks taken away.
  text=$(sed -E 's,^ *(//|#)+ ?,,' "$file" | tr '\n' ' ' | tr -s ' ')
  while IFS= read -r citation; do
    seen=$((seen + 1))
    page=$(grep -oE '[a-z0-9-]+\.md' <<<"$citation" | head -n 1)
    if [[ ! -e docs/spec/$page ]]; then
      fail "$file cites docs/spec/$page, which does not exist"
      continue
    fi
    section=$(grep -oE 'sections? [0-9]+(\.[0-9]+)?' <<<"$citation" | grep -oE '[0-9.]+$')
    if [[ -n $section ]] && ! grep -qE "^#+ ${section//./\\.}[. ]" "docs/spec/$page"; then
      fail "$file cites section $section of docs/spec/$page, which does not exist"
    fi
  done < <(grep -oE 'docs/spec/[a-z0-9-]+\.md[`"]?,?( sections? [0-9]+(\.[0-9]+)?)?' <<<"$text")
done < <(files '*.hpp' '*.cpp' '*.sh' '*.md' '*CMakeLists.txt' | grep -v '^docs/spec/')
# Headings of docs/architecture.md, cited by their names in quotes (or how they begin).
while IFS= read -r heading; do
  seen=$((seen + 1))
  grep -q "^## $heading" docs/architecture.md || fail "docs/architecture.md has no section \"$heading\""
done < <(files '*.hpp' '*.cpp' '*.sh' | xargs -r -d '\n' cat |
  grep -oP 'docs/architecture\.md,? "\K[A-Z][^"]+(?=")' | sort -u)
((seen > 0)) || fail "no citation was seen"
finish
