#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Keys that the configuration knows are those of elevd.toml(5) and elevd(8), and the other way round.
. "$(dirname "$0")/lib.sh"

items() { awk '$1 == ".It" && $2 == "Cm" { print $3 }'; }

daemon=$("$ELEVD_HELPERS/list_keys" daemon)
disk=$("$ELEVD_HELPERS/list_keys" disk)
same "keys of the daemon" "$daemon" "$(section elevd.toml.5 "KEYS OF THE DAEMON" | items)"
same "keys of a disk" "$disk"$'\nqueue\ngroup_weights' "$(section elevd.toml.5 "KEYS OF A DISK" | items)"
# The backing of the command line is not a key there.
same "keys of --disk" "$(grep -vx backing <<<"$disk")" "$(section elevd.8 "Disk keys" | items)"
# The sample names each of them, commented out or not.
for key in $daemon $disk; do
  [[ $key == disk ]] || grep -qE "^#?$key +=" packaging/elevd.toml || fail "the sample lacks $key"
done
finish
