#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The exit statuses that the sources name are those of the manuals and of docs/architecture.md.
. "$(dirname "$0")/lib.sh"

documented() { section "$1" "EXIT STATUS" | awk '$1 == ".It" { print $2 }'; }
statuses=$(grep -oP 'kExit[A-Z][A-Za-z]+ = \K[0-9]+' daemon/error.hpp)
same "statuses of elevd" "$statuses" "$(documented elevd.8)"
same "statuses of elevd in docs/architecture.md" "$statuses" \
  "$(grep -oP '^\| \K[0-9](?= \|)' docs/architecture.md)"
same "statuses of elevctl" "0"$'\n'"$(grep -oP 'kElevctl[A-Z][A-Za-z]+ = \K[0-9]+' daemon/elevctl_command.hpp)" \
  "$(documented elevctl.1)"

expect() {  # STATUS COMMAND...: what can be had without a mount
  local status
  "${@:2}" >/dev/null 2>&1
  status=$?
  ((status == $1)) || fail "\"${*:2}\" ended with status $status, expected $1"
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
expect 0 "$ELEVD_BIN/elevd" --version
expect 0 "$ELEVD_BIN/elevd" --check --config packaging/elevd.toml
expect 2 "$ELEVD_BIN/elevd" --nonsense
expect 3 "$ELEVD_BIN/elevd" "$work/dir" --disk "d0=$work/absent"
: >"$work/file"
expect 4 "$ELEVD_BIN/elevd" "$work/file" --disk d0=ram:1M
expect 0 "$ELEVD_BIN/elevctl" --version
expect 2 "$ELEVD_BIN/elevctl" -d "$work/absent" list
[[ $(ls -A "$work") == file ]] || fail "left over: $(ls -A "$work")"
finish
