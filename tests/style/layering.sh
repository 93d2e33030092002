#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who may include whom (docs/architecture.md, rooms): sched uses the standard library,
# Boost.Intrusive and tl::expected only and has no clock, thread or file; sysfs uses sched besides;
# config stands alone; nothing includes daemon but daemon and tests.
. "$(dirname "$0")/lib.sh"

includes() {  # FOLDER: "file:line:what", what with its quotes or brackets
  files "$1/*.hpp" "$1/*.cpp" | xargs -r grep -HnoE '^ *# *include *(<[^>]+>|"[^"]+")' |
    sed -E 's/^([^:]+:[0-9]+:) *# *include */\1/'
}

allow() {  # FOLDER PATTERN: every include of the folder matches, from its start to its end
  local line
  while IFS= read -r line; do
    [[ $line =~ ^[^:]+:[0-9]+:($2)$ ]] || fail "${line%:*} may not include ${line##*:}"
  done < <(includes "$1")
}

standard='<[a-z_0-9]+>'
allow sched "$standard|<boost/intrusive/[a-z_]+\.hpp>|<tl/expected\.hpp>|\"(sched/)?[a-z_0-9]+\.hpp\""
allow sysfs "$standard|<tl/expected\.hpp>|<fmt/[a-z]+\.h>|\"(sched/|sysfs/)?[a-z_0-9]+\.hpp\""
allow config "$standard|<[a-z_]+\.h>|<sys/[a-z_]+\.h>|<tl/expected\.hpp>|<fmt/[a-z]+\.h>|<toml\+\+/toml\.h>|<CLI/[A-Za-z]+\.hpp>|\"(config/)?[a-z_0-9]+\.hpp\""
allow daemon '<[^>]+>|"((sched|sysfs|config|daemon)/)?[a-z_0-9/]+\.hpp"'

# sched: no threads, no waiting for events, no clocks, no files, no logs (a failed assertion may speak)
while IFS= read -r line; do
  fail "sched may not use ${line##*:} (${line%:*})"
done < <(includes sched | grep -v "^sched/assertion\." |
  grep -E '<(thread|mutex|shared_mutex|condition_variable|future|semaphore|barrier|latch|stop_token|iostream|fstream|filesystem|cstdio|syslog)>')
while IFS= read -r line; do
  fail "sched has no clock: $line"
done < <(files 'sched/*.hpp' 'sched/*.cpp' |
  xargs -r grep -nE '(steady|system|high_resolution)_clock|clock_gettime|gettimeofday|\brand\(|random_device|getenv')

# sysfs knows no FUSE
while IFS= read -r line; do
  fail "sysfs may not know FUSE: $line"
done < <(files 'sysfs/*.hpp' 'sysfs/*.cpp' | xargs -r grep -nE '\bfuse_|FUSE_USE_VERSION')

# the test itself sees includes
count=$(for folder in sched sysfs config daemon; do includes "$folder"; done | wc -l)
if (($(files 'sched/*.hpp' | wc -l) > 0 && count == 0)); then fail "no include was seen"; fi
finish
