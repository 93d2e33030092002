#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each source file names the licence in its first lines; the licence itself is there.
. "$(dirname "$0")/lib.sh"
while IFS= read -r file; do
  head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || fail "$file has no licence line"
done < <(files '*.hpp' '*.cpp' '*.sh' tests/run .ci/run packaging/quickstart packaging/dependencies)
grep -q 'Apache License' LICENSE || fail "LICENSE is not the Apache licence"
grep -q 'END OF TERMS AND CONDITIONS' LICENSE || fail "LICENSE is not whole"
finish
