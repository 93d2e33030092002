#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mandoc has nothing to say about the manuals, and every page is installed.
. "$(dirname "$0")/lib.sh"
command -v mandoc >/dev/null || skip "no mandoc"
mapfile -t pages < <(files 'man/*.[1-9]')
((${#pages[@]} >= 4)) || fail "fewer pages than there are"
for page in "${pages[@]}"; do
  mandoc -Tlint -W warning "$page" || fail "$page: findings of mandoc"
  grep -q "${page#man/}" man/CMakeLists.txt || fail "$page is not installed"
  # Each page leads to the others that exist.
  while read -r name number; do
    [[ $name != elev* || -e man/$name.$number ]] || fail "$page refers to $name($number)"
  done < <(awk '$1 == ".Xr" { print $2, $3 }' "$page")
done
finish
