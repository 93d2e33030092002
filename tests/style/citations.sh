#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A citation in code or documents, `docs/spec/PAGE.md` section N, leads to a page and a section that
# exist. A citation may be broken over two comment lines.
. "$(dirname "$0")/lib.sh"

# Of every file one line, comment marks taken away; then of every citation: file, page, section.
# shellcheck disable=SC2016
citations() {
  files '*.hpp' '*.cpp' '*.sh' '*.md' '*CMakeLists.txt' | grep -v '^docs/spec/' | xargs -r -d '\n' awk '
    function cite(file, text,   found, page, section) {
      gsub(/[ \t]+/, " ", text)
      while (match(text, /docs\/spec\/[a-z0-9-]+\.md[`"]?,?( sections? [0-9]+(\.[0-9]+)?)?/)) {
        found = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        page = found
        sub(/^docs\/spec\//, "", page)
        sub(/\.md.*/, ".md", page)
        section = found ~ /[0-9]$/ ? found : ""
        sub(/.* /, "", section)
        print file "\t" page "\t" section
      }
    }
    FNR == 1 { if (file != "") cite(file, text); file = FILENAME; text = "" }
    { sub(/^ *(\/\/|#)+ ?/, ""); text = text $0 " " }
    END { cite(file, text) }'
}

# Of every page: its name alone, and with the number of each heading.
declare -A known
while IFS=$'\t' read -r page section; do
  known["$page $section"]=1
done < <(cd docs/spec && printf '%s\t\n' *.md &&
  grep -HoE '^#+ [0-9]+(\.[0-9]+)?[. ]' -- *.md | sed -E 's/^([^:]+):#+ ([0-9.]*[0-9])[. ]$/\1\t\2/')

seen=0
while IFS=$'\t' read -r file page section; do
  seen=$((seen + 1))
  if [[ -z ${known["$page "]:-} ]]; then
    fail "$file cites docs/spec/$page, which does not exist"
  elif [[ -z ${known["$page $section"]:-} ]]; then
    fail "$file cites section $section of docs/spec/$page, which does not exist"
  fi
done < <(citations)
# Headings of docs/architecture.md, cited by their names in quotes (or how they begin).
while IFS= read -r heading; do
  seen=$((seen + 1))
  grep -q "^## $heading" docs/architecture.md || fail "docs/architecture.md has no section \"$heading\""
done < <(files '*.hpp' '*.cpp' '*.sh' | xargs -r -d '\n' cat |
  grep -oP 'docs/architecture\.md,? "\K[A-Z][^"]+(?=")' | sort -u)
((seen > 0)) || fail "no citation was seen"
finish
