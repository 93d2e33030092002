#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Options and commands that --help prints are those of the manuals, and the other way round; those
# of the completions too.
. "$(dirname "$0")/lib.sh"

offered() { grep -oE '^ +(-[a-z]|--[a-z-]+)(, ?-*[a-z-]+)*' | grep -oE -- '-+[a-z][a-z-]*'; }
documented() {  # PAGE: words of `.It Fl -check` and `.It Fl h , Fl -help`
  awk '$1 == ".It" && $2 == "Fl" { for (i = 2; i < NF; ++i) if ($i == "Fl") print "-" $(i + 1) }' "man/$1"
}

same "options of elevd" "$("$ELEVD_BIN/elevd" --help | offered)" "$(documented elevd.8)"

# Commands; their options are on the same page.
commands=$("$ELEVD_BIN/elevctl" --help | sed '1,/^Subcommands:/d' | awk 'NF { print $1 }')
same "options of elevctl" "$(
  "$ELEVD_BIN/elevctl" --help | offered
  for command in $commands; do "$ELEVD_BIN/elevctl" "$command" --help | offered; done
)" "$(documented elevctl.1)"
same "commands of elevctl" "$commands" "$(awk '$1 == ".It" && $2 == "Cm" { print $3 }' man/elevctl.1)"
same "commands in the synopsis" "$commands" "$(section elevctl.1 SYNOPSIS | awk '$1 == ".Cm" { print $2 }')"

# What the shell completes is known, and what is known is completed ("-h" for --help is not worth it).
same "options completed" "$("$ELEVD_BIN/elevd" --help | offered | grep -vx -- -h)" \
  "$(grep -oE -- '--[a-z][a-z-]*' packaging/completions/elevd | grep -vx -- --)"
same "commands completed" "$commands" \
  "$(grep -oP 'compgen -W "\K[a-z][a-z ]*(?=")' packaging/completions/elevctl | tr ' ' '\n')"
finish
