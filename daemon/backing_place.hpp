// SPDX-License-Identifier: Apache-2.0
// Where a backing's path leads, found without touching the file itself: it may be a mount of a dead
// or stalled daemon.
//
// Owns:       nothing.
// Thread:     any. Looks directories and symbolic links up, never the last component's target.
#pragma once

#include <string>

#include "error.hpp"

namespace elevd::daemon {

// The absolute path of what `path` names, with no symbolic link in it, not even as its last
// component, which need not exist. Errors (kExitBacking): the errno of a missing or unreadable
// parent directory, ELOOP after 40 links.
Result<std::string> resolve_place(const std::string& path);

// The canonical form of `directory`, as much of it as exists. `.` and `..` in the rest are undone.
std::string resolve_directory(const std::string& directory);

}  // namespace elevd::daemon
