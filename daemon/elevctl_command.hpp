// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "daemon/elevctl_tree.hpp"

// ElevctlCommand: everything `elevctl` does, without a process around it.
//
// Owns:       nothing.
// Thread:     any.
// Time:       as Tree.
// Invariants: (1) get prints nothing unless it could read everything;
//             (2) set stops at the first refusal; what was stored before it stays stored.
// See also:   elevctl_tree.hpp (the files), elevctl.cpp (main).
namespace elevd::daemon {

// What a run reads from its process.
struct ElevctlContext {
  bool is_root = false;
  std::string runtime_directory;  // $XDG_RUNTIME_DIR, empty if unset
  std::string elevd_directory;    // $ELEVD_DIR, empty if unset
  std::string version;            // "0.1.0"
};

inline constexpr int kElevctlRefused = 1;  // a store, or a read of a file that is there
inline constexpr int kElevctlUsage = 2;    // wrong words; no such tree, disk or attribute
// The statuses of simulate are those of simulation.hpp.

// What a run wants printed.
struct ElevctlOutcome {
  int status = 0;
  std::string output;  // to standard output, whole lines
  std::string error;   // to standard error, one line without program name and newline, or empty
  std::string messages = {};  // to standard error, whole lines as they are
};

// Runs one command line. argv[0] is skipped.
ElevctlOutcome run_elevctl(int argc, const char* const* argv, const ElevctlContext& context);

// What an attribute takes, for the message of a store refused with EINVAL: "expected one of none,
// mq-deadline"; empty when nothing is known. `current` is the text the file shows.
std::string expected_values(std::string_view attribute, std::string_view current);

}  // namespace elevd::daemon
