#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Files of the tree, with their modes, are those of elevd-sysfs(5), and the other way round: those of
# a disk, its debug files, and those of each scheduler, which has a subsection of its name.
. "$(dirname "$0")/lib.sh"

# "GROUP PATH MODE". The line behind `.It Pa PATH , PATH`, or behind several, begins with the mode.
documented=$(awk '
  /^\.Sh / { group = ($0 == ".Sh DEBUG FILES") ? "debug" : "disk" }
  /^\.Ss / { group = $2 }
  $1 == ".It" && $2 == "Pa" { for (i = 3; i <= NF; i += 2) paths[n++] = $i; next }
  n > 0 {
    mode = /^Read-write, / ? "rw" : /^Read-only, / ? "ro" : "without a mode"
    for (i = 0; i < n; ++i) print group, paths[i], mode
    n = 0
  }' man/elevd-sysfs.5)
program=$("$ELEVD_HELPERS/list_keys" attributes)
groups=$(cut -d' ' -f1 <<<"$program" | sort -u)
grep -qx disk <<<"$groups" || fail "no files of a disk"
# The page may describe a scheduler, or the debug files, ahead of a build that has none.
for group in $groups; do
  same "files, $group" "$(grep "^$group " <<<"$program")" "$(grep "^$group " <<<"$documented")"
done

# A file that can be written says its default, unless it is a constant.
while IFS= read -r entry; do
  fail "elevd-sysfs(5): $entry has no default"
done < <(awk '
  function judge() { if (writable && text !~ /[Dd]efault|constant|the active one/) print path }
  $1 == ".It" && $2 == "Pa" { judge(); path = $3; writable = 0; text = ""; next }
  /^\.El/ { judge(); writable = 0 }
  /^Read-write, / { writable = 1 }
  { text = text $0 }' man/elevd-sysfs.5)
finish
