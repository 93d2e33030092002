// SPDX-License-Identifier: Apache-2.0
// SessionArguments: the mount options of a connection, in the form that libfuse takes.
//
// Owns:       the copies that libfuse makes of them.
// Thread:     the one that mounts.
// See also:   control.cpp, disk_connection.cpp; mounts.hpp (dead mounts are known by the subtype).
#pragma once

#include <unistd.h>

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include <string>

namespace elevd::daemon {

class SessionArguments {
 public:
  /// `more`: further options, joined by commas.
  explicit SessionArguments(const std::string& more) {
    std::string options = "fsname=elevd,subtype=elevd," + more;
    // Everybody may pass, the modes decide, as for device nodes and sysfs. A user's own mount is
    // his alone, unless the system administrator allows more.
    if (geteuid() == 0) options += ",allow_other";
    fuse_opt_add_arg(&arguments_, "elevd");
    fuse_opt_add_arg(&arguments_, "-o");
    fuse_opt_add_arg(&arguments_, options.c_str());
  }
  ~SessionArguments() { fuse_opt_free_args(&arguments_); }
  SessionArguments(const SessionArguments&) = delete;
  SessionArguments& operator=(const SessionArguments&) = delete;

  [[nodiscard]] fuse_args* get() { return &arguments_; }

 private:
  fuse_args arguments_{0, nullptr, 0};
};

}  // namespace elevd::daemon
