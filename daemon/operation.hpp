// SPDX-License-Identifier: Apache-2.0
// Operation: a request while it is in flight on a ring, and what is left of it after a short or
// failed completion.
//
// Owns:       the I/O vector, which must stay until the completion.
// Thread:     its worker's.
// Invariants: a request of several bios that fails is repeated bio by bio, so that only the bad one
//             fails (docs/architecture.md "Backings").
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>

#include "sched/request.hpp"

namespace elevd::daemon {

class Disk;

/// A request has at most this many bios (max_segments).
inline constexpr unsigned kMaxVector = 128;

struct Operation {
  Operation* next_free = nullptr;
  sched::Request* rq = nullptr;
  Disk* disk = nullptr;
  sched::Bio* retry = nullptr;  ///< the bio that is repeated alone; null: the whole request
  std::uint64_t offset = 0;     ///< next byte of the backing
  std::uint64_t left = 0;       ///< bytes not done
  unsigned first = 0;           ///< next entry of the vector
  unsigned count = 0;           ///< entries of the vector
  std::array<iovec, kMaxVector> vector;

  /// Moves past `bytes` that were done.
  void advance(std::uint64_t bytes) {
    offset += bytes;
    left -= bytes;
    while (bytes != 0 && first < count) {
      iovec& entry = vector[first];
      if (bytes < entry.iov_len) {
        entry.iov_base = static_cast<std::byte*>(entry.iov_base) + bytes;
        entry.iov_len -= bytes;
        return;
      }
      bytes -= entry.iov_len;
      ++first;
    }
  }
};

}  // namespace elevd::daemon
