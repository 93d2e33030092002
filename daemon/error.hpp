// SPDX-License-Identifier: Apache-2.0
// Error, Result: how this room reports that something could not be started.
//
// Owns:       its text.
// Thread:     values; no sharing.
// Invariants: (1) `what` is one line without a newline, fit for the log and for stderr: it names
// the
//                 thing (path, disk), what is wrong with it and what was expected;
//             (2) an I/O error is not an Error: it is an errno in a completion.
// See also:   design, section 6 (errors) and 7 (exit statuses).
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace elevd::daemon {

// Exit statuses of elevd (design, section 7).
inline constexpr int kExitStopped = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBacking = 3;
inline constexpr int kExitDirectory = 4;

struct Error {
  int code = 0;                   // an errno, positive
  std::string what;               // one line
  int exit_status = kExitFailed;  // what elevd exits with when this stops it from starting
};

template <class T>
using Result = tl::expected<T, Error>;

}  // namespace elevd::daemon
