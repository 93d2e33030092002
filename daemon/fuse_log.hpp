// SPDX-License-Identifier: Apache-2.0
// FuseLog: where the messages of libfuse go, which by itself writes them to stderr.
//
// Owns:       libfuse's one log function, from the first FuseMessages on.
// Thread:     any; a FuseMessages belongs to the thread that made it.
// Invariants: a message is either kept by the FuseMessages of its thread or logged, never both.
// See also:   log.hpp.
#pragma once

#include <string>

namespace elevd::daemon {

/// While it lives, what libfuse says on this thread is kept instead of logged: for a mount that
/// fails, where the words belong into the one line of the Error. REQUIRES: one at a time per
/// thread.
class FuseMessages {
 public:
  FuseMessages();
  ~FuseMessages();
  FuseMessages(const FuseMessages&) = delete;
  FuseMessages& operator=(const FuseMessages&) = delete;

  /// The messages so far, joined by "; ", without "fuse: " and newlines. May be empty.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace elevd::daemon
