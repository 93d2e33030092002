# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of the manuals share: `. "$(dirname "$0")/lib.sh"`.
#
# Variables of the environment (set by ctest): ELEVD_BIN and ELEVD_HELPERS, folders of binaries,
# ELEVD_BUILD, the folder of the build.
. "$(dirname "${BASH_SOURCE[0]}")/../style/lib.sh"
: "${ELEVD_BIN:?folder of elevd}" "${ELEVD_HELPERS:?folder of list_keys}" "${ELEVD_BUILD:?folder of the build}"

# section PAGE HEADING [END]: the lines of the section or subsection up to the next of its kind.
section() {
  awk -v begin="$2" '
    /^\.S[hs] / { inside = 0 }
    $0 == ".Sh " begin || $0 == ".Ss " begin { inside = 1 }
    inside' "man/$1"
}

# same WHAT PROGRAM MANUAL: two lists, one entry a line, in any order. Each difference is a failure.
same() {
  local entry
  if [[ -z $2 || -z $3 ]]; then fail "$1: an empty list"; fi
  while IFS= read -r entry; do
    fail "$1: $entry is in the program and not in the manual"
  done < <(comm -23 <(sort -u <<<"$2") <(sort -u <<<"$3"))
  while IFS= read -r entry; do
    fail "$1: $entry is in the manual and not in the program"
  done < <(comm -13 <(sort -u <<<"$2") <(sort -u <<<"$3"))
}
