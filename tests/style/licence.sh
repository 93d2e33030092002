#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each source file names the licence in its first lines; the licence itself is there.
. "$(dirname "$0")/lib.sh"
while IFS= read -r file; do
  fail "$file has no licence line"
done < <(files '*.hpp' '*.cpp' '*.sh' tests/run .ci/run packaging/quickstart packaging/dependencies |
  xargs -r -d '\n' awk '
    BEGIN { for (i = 1; i < ARGC; i++) missing[ARGV[i]] }
    FNR <= 3 && /SPDX-License-Identifier: Apache-2\.0/ { delete missing[FILENAME] }
    FNR == 3 { nextfile }
    END { for (file in missing) print file }')
grep -q 'Apache License' LICENSE || fail "LICENSE is not the Apache licence"
grep -q 'END OF TERMS AND CONDITIONS' LICENSE || fail "LICENSE is not whole"
finish
