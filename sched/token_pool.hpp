// SPDX-License-Identifier: Apache-2.0
// TokenPool: how many requests of a kind may be at the device, and whether somebody waits for one.
//
// Owns:       a bitmap of tokens.
// Thread:     put by any thread; everything else under the elevator lock of one queue, which is the
//             only one that takes tokens and so the only one that waits.
// Invariants: (1) at most depth() tokens are out, except after a shrink: nothing is revoked,
// numbers
//                 from depth() on are not given out again;
//             (2) while somebody waits, every wake_batch-th put says so, and so does a new depth;
//                 as all tokens are out when the wait begins, there are enough puts to come.
// See also:   docs/spec/kyber.md section 4.4, docs/spec/tags-and-depth.md section 3.
#pragma once

#include <atomic>
#include <cstdint>

#include "queue_view.hpp"
#include "sbitmap.hpp"

namespace elevd::sched {

class TokenPool {
 public:
  /// REQUIRES: most >= 1; it is the depth, too, until it is changed.
  explicit TokenPool(std::uint32_t most);
  ~TokenPool();  ///< asserts: every token is back

  /// A token, or -1: from then on the caller waits, until put() or set_depth() says that it is to
  /// be run, or it gets a token.
  [[nodiscard]] std::int32_t get();

  /// Gives a token back. True: run the queue that waits. Sequentially consistent.
  [[nodiscard]] bool put(std::uint32_t token);

  /// From now on so many; ends a wait. REQUIRES: 1 <= depth <= most().
  void set_depth(std::uint32_t depth);

  [[nodiscard]] std::uint32_t depth() const { return bitmap_.depth(); }
  [[nodiscard]] std::uint32_t most() const { return bitmap_.capacity(); }
  [[nodiscard]] bool waiting() const { return waiting_.load(std::memory_order_seq_cst); }
  /// Tokens that are out, those from depth() on included; a snapshot.
  [[nodiscard]] std::uint32_t out() const { return bitmap_.taken(); }
  [[nodiscard]] std::uint32_t wake_batch() const {
    return wake_batch_.load(std::memory_order_relaxed);
  }
  /// For the debug tree.
  [[nodiscard]] TagMapView view() const;

 private:
  static constexpr unsigned kTaker = 0;  ///< one hint: who takes tokens has the elevator lock

  bool stop_waiting();

  Sbitmap bitmap_;
  unsigned next_wait_queue_ = 0;  ///< where the waiter will stand next time
  alignas(64) std::atomic<bool> waiting_{false};
  std::atomic<unsigned> wait_queue_{0};  ///< where it stands; shown, nothing else
  std::atomic<unsigned> wake_index_{0};  ///< likewise
  std::atomic<std::uint32_t> wake_batch_;
  std::atomic<std::uint32_t> puts_{0};  ///< while somebody waited, since the last wake-up
};

}  // namespace elevd::sched
