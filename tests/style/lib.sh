# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# What the style tests share: they run in the top folder, over the files of the repository.
set -u -o pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
failures=0

fail() {
  failures=$((failures + 1))
  echo "FAILED: $*"
}

skip() {
  echo "SKIP: $*"
  exit 77
}

# Files of the repository, also those not yet committed; in an unpacked archive, all of them.
files() {  # [git pathspec]...
  if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- "$@" | sort -u |
      while IFS= read -r file; do if [[ -e $file ]]; then echo "$file"; fi; done
  else
    local pattern
    for pattern in "${@:-*}"; do
      find . -path ./build -prune -o -path ./.cache -prune -o -type f -path "./$pattern" -print
    done | sed 's,^\./,,' | sort -u
  fi
}

finish() {
  ((failures == 0))
  exit
}
