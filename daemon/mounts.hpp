// SPDX-License-Identifier: Apache-2.0
// Mounts: what /proc/self/mountinfo says, and how a mount is taken away.
//
// Owns:       nothing.
// Thread:     any. unmount() may wait for a child process: not for a worker, nor for a thread that
//             serves the mount in question.
// Invariants: (1) nothing here looks a mount point up, not even by stat: the server of a dead or
//                 stalled mount would have to answer (`docs/spec/fuse.md` section 12).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "error.hpp"

namespace elevd::daemon {

// One line of mountinfo, names with their escapes undone. Source: proc(5).
struct Mount {
  int id = 0;
  int parent_id = 0;
  unsigned device_major = 0;
  unsigned device_minor = 0;
  std::string root;         // what of the file system is shown
  std::string mount_point;  // absolute
  std::string type;         // "ext4", "fuse.elevd"
  std::string source;
};

// Undoes the \NNN escapes (three octal digits) of mountinfo; other backslashes stay.
std::string unescape_octal(std::string_view text);

// Pure. Lines that do not have the format are left out. The order is kept: a mount stands after the
// one it is mounted on.
std::vector<Mount> parse_mountinfo(std::string_view text);

// The mounts this process sees. Errors: the errno of open or read.
Result<std::vector<Mount>> read_mounts();

// Whether `path` lies below `directory` (not the same). Both absolute and canonical; text only.
bool is_below(std::string_view directory, std::string_view path);

// The topmost mount exactly at `path`, or null.
const Mount* find_mount_at(const std::vector<Mount>& mounts, std::string_view path);

// Takes the topmost mount at `path` away; `lazy`: out of sight at once, gone when its last user is.
// By umount2(2) where that is permitted, else by fusermount3. `path` is absolute.
// Returns 0 or an errno: EBUSY in use, EINVAL nothing is mounted there, EPERM not allowed.
int unmount(const std::string& path, bool lazy);

}  // namespace elevd::daemon
