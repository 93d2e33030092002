#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `cmake --install` puts everything in its place, below a prefix and below DESTDIR; what it installed
# works; a configuration that is there stays; the unit is valid and hides no mount.
. "$(dirname "$0")/lib.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

install_to() {  # DESTDIR PREFIX
  DESTDIR=$1 cmake --install "$ELEVD_BUILD" --prefix "$2" >"$work/log" 2>&1 && return
  cat "$work/log"
  fail "cmake --install to $1$2"
  finish
}

expected=(
  bin/elevd bin/elevctl lib/systemd/system/elevd.service
  share/man/man1/elevctl.1 share/man/man5/elevd.toml.5 share/man/man5/elevd-sysfs.5
  share/man/man8/elevd.8
  share/bash-completion/completions/elevd share/bash-completion/completions/elevctl
  share/doc/elevd/README.md share/doc/elevd/LICENSE share/doc/elevd/CHANGELOG.md
)

# Below a prefix: etc is in it.
prefix=$work/prefix
install_to "" "$prefix"
same "files below the prefix" "$(printf '%s\n' "${expected[@]}" etc/elevd/elevd.toml)" \
  "$(cd "$prefix" && find . -type f -printf '%P\n')"
version=$("$prefix/bin/elevd" --version)
[[ $version == "elevd "* ]] || fail "version of what was installed: $version"
"$prefix/bin/elevd" --check --config "$prefix/etc/elevd/elevd.toml" >/dev/null ||
  fail "the installed configuration is not valid"
grep -q "^ExecStart=$prefix/bin/elevd --config $prefix/etc/elevd/elevd.toml\$" \
  "$prefix/lib/systemd/system/elevd.service" || fail "paths in the unit"

# A second time: the configuration was edited meanwhile.
echo '# mine' >>"$prefix/etc/elevd/elevd.toml"
install_to "" "$prefix"
[[ $(tail -n 1 "$prefix/etc/elevd/elevd.toml") == '# mine' ]] || fail "the configuration was overwritten"

# As a package does it.
root=$work/root
install_to "$root" /usr
same "files of a package" "$(printf 'usr/%s\n' "${expected[@]}"; echo etc/elevd/elevd.toml)" \
  "$(cd "$root" && find . -type f -printf '%P\n')"
unit=$root/usr/lib/systemd/system/elevd.service
cmp -s "$unit" packaging/elevd.service || fail "the unit of a package differs from packaging/elevd.service"

# docs/spec/fuse.md section 12: what makes a mount namespace hides the disks.
namespaces='Protect(System|Home|KernelTunables|KernelModules|KernelLogs|ControlGroups|Proc|Clock|Hostname)|Private(Tmp|Devices|Mounts|Users|IPC)|(ReadOnly|ReadWrite|Inaccessible|NoExec|Exec)Paths|(Bind|BindReadOnly)Paths|TemporaryFileSystem|Root(Directory|Image)|MountFlags|MountAPIVFS|DynamicUser|ProcSubset|ExtensionImages|MountImages|LogNamespace'
if grep -nE "^($namespaces)=" "$unit"; then fail "the unit gives elevd a mount namespace of its own"; fi

# Each line of the unit has its reason: a comment above its group.
while IFS= read -r line; do
  fail "no comment above: $line"
done < <(awk '
  /^#/ { reason = 1; next }
  /^\[|^$|^(Description|Documentation|WantedBy|StartLimit|RestartSec)/ { if (!/^[A-Z]/) reason = 0; next }
  { if (!reason) print }' packaging/elevd.service)

command -v systemd-analyze >/dev/null || {
  ((failures > 0)) && finish
  skip "no systemd-analyze: the unit is not verified"
}
# With the installed binary in its place: verify looks whether it can be executed.
sed "s,/usr/bin/elevd ,$root/usr/bin/elevd ," "$unit" >"$work/elevd.service"
MANPATH=$root/usr/share/man systemd-analyze verify --man=no "$work/elevd.service" >"$work/verify" 2>&1 ||
  { cat "$work/verify"; fail "systemd-analyze verify"; }
if grep "elevd.service" "$work/verify"; then fail "systemd-analyze verify has findings"; fi
finish
