// SPDX-License-Identifier: Apache-2.0
// FrontRequest: one READ, WRITE, FSYNC or FALLOCATE of a caller, from the kernel's request to its
// answer.
//
// Owns:       its bio. The payload buffer belongs to a BufferPool, the object to a RequestPool.
// Thread:     the worker it came in on; after dispatch the worker that completes it, which answers
//             it and sends it home. `memory` and `view` may be set by two workers at once that
//             dispatch pieces of it.
// Invariants: (1) answered exactly once;
//             (2) `memory` is where byte origin() of the disk would lie: the payload of any piece
//                 is found from its sector alone, wherever a cut was made.
// See also:   docs/spec/fuse.md sections 2, 5; engine.hpp (who moves the payload).
#pragma once

#include <atomic>
#include <boost/intrusive/parent_from_member.hpp>
#include <cstddef>
#include <cstdint>

#include "sched/bio.hpp"

namespace elevd::daemon {

class Disk;
class Front;

struct FrontRequest {
  sched::Bio bio;
  Disk* disk = nullptr;         ///< null: free
  Front* front = nullptr;       ///< where it came in, and where it goes home to
  std::uint64_t unique = 0;     ///< number of the kernel's request
  std::uint64_t offset = 0;     ///< bytes, as asked
  std::uint64_t length = 0;     ///< bytes, clipped at the end of the disk
  std::uint32_t opcode = 0;     ///< FUSE opcode, tells the form of the answer
  std::byte* buffer = nullptr;  ///< WRITE: the buffer its message is in
  std::atomic<std::byte*> memory{nullptr};      ///< see invariant 2; null: none yet
  std::atomic<const std::byte*> view{nullptr};  ///< READ: the stored bytes, no copy was made
  FrontRequest* next_free = nullptr;            ///< in a pool's list

  /// First byte of the widened range.
  [[nodiscard]] std::uint64_t origin() const { return bio.origin.offset().value; }
  /// What the caller sent, or is to get.
  [[nodiscard]] const std::byte* payload() const {
    const std::byte* seen = view.load(std::memory_order_relaxed);
    if (seen != nullptr) return seen;
    return memory.load(std::memory_order_relaxed) + (offset - origin());
  }
};

inline FrontRequest& front_of(sched::Bio& root) {
  return *boost::intrusive::get_parent_from_member(&root, &FrontRequest::bio);
}

}  // namespace elevd::daemon
