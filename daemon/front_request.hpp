// SPDX-License-Identifier: Apache-2.0
// FrontRequest: one READ, WRITE, FSYNC or FALLOCATE of a caller, from the kernel's request to its
// answer.
//
// Owns:       its bio. The payload buffer belongs to a BufferPool, the object to a RequestPool;
// both
//             to a ring entry on that transport.
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

#include "range_table.hpp"
#include "sched/bio.hpp"

namespace elevd::daemon {

class Disk;
class Front;

/// What a front request does next when it comes back to its owner.
enum class Stage : std::uint8_t {
  plain,       ///< its answer, and then it is free
  granted,     ///< it has its range and may be submitted
  middle,      ///< the whole blocks inside an unaligned punch are being zeroed
  head,        ///< the first block of an unaligned write or punch is being read
  tail,        ///< the last one is
  head_write,  ///< the first block of an unaligned punch is being written back
  tail_write,  ///< the last one is
};

struct ByteRange {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  [[nodiscard]] std::uint64_t length() const { return to > from ? to - from : 0; }
};

struct FrontRequest {
  sched::Bio bio;
  Disk* disk = nullptr;            ///< null: free
  Front* front = nullptr;          ///< where it came in, and where it goes home to
  std::uint64_t unique = 0;        ///< number of the kernel's request
  std::uint64_t offset = 0;        ///< bytes, as asked
  std::uint64_t length = 0;        ///< bytes, clipped at the end of the disk
  std::uint32_t opcode = 0;        ///< FUSE opcode, tells the form of the answer
  sched::Op op = sched::Op::read;  ///< as asked; the bio of an unaligned request reads in between
  Stage stage = Stage::plain;
  bool unaligned = false;         ///< a WRITE or FALLOCATE that is read, modified and written
  bool durable = false;           ///< a WRITE that is to be on stable storage when it is answered
  bool holds_range = false;       ///< `range` is in the table of the disk
  std::byte* scratch = nullptr;   ///< of an unaligned one: memory for its edges
  RangeHold range;                ///< held in range mode
  std::byte* received = nullptr;  ///< WRITE: where its payload was received, a page
  std::atomic<std::byte*> memory{nullptr};      ///< see invariant 2; null: none yet
  std::atomic<const std::byte*> view{nullptr};  ///< READ: the stored bytes, no copy was made
  FrontRequest* next_free = nullptr;            ///< in a pool's list

  /// The whole blocks that its bytes lie in. `block`: bytes of a logical block.
  [[nodiscard]] ByteRange widened(std::uint64_t block) const {
    return {offset / block * block, (offset + length + block - 1) / block * block};
  }
  /// The whole blocks inside its bytes; empty if there are none.
  [[nodiscard]] ByteRange narrowed(std::uint64_t block) const {
    return {(offset + block - 1) / block * block, (offset + length) / block * block};
  }
  /// First byte of what was submitted.
  [[nodiscard]] std::uint64_t origin() const { return bio.origin.offset().value; }
  /// What the caller sent, or is to get.
  [[nodiscard]] const std::byte* payload() const {
    const std::byte* seen = view.load(std::memory_order_relaxed);
    if (seen != nullptr) return seen;
    return memory.load(std::memory_order_relaxed) + (offset - origin());
  }
};

inline const FrontRequest& front_of(const sched::Bio& root) {
  return *boost::intrusive::get_parent_from_member(&root, &FrontRequest::bio);
}
inline FrontRequest& front_of(sched::Bio& root) {
  return *boost::intrusive::get_parent_from_member(&root, &FrontRequest::bio);
}

}  // namespace elevd::daemon
