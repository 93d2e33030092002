// SPDX-License-Identifier: Apache-2.0
// BfqPool: where the contexts of issuers and the queues of bfq come from.
//
// Owns:       all of them, for as long as it lives.
// Thread:     under the elevator lock.
// Time:       an argument.
// Invariants: (1) an issuer has at most one context;
//             (2) a queue or context is in a list of free ones, or somebody's.
// See also:   docs/spec/bfq.md section 1, bfq_context.hpp, bfq_queue.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "bfq_context.hpp"
#include "bfq_queue.hpp"

namespace elevd::sched {

class BfqPool {
 public:
  /// A context at rest for so long may be given to another issuer.
  static constexpr Duration kKeep{5'000'000'000};

  /// New queues are of `root`.
  explicit BfqPool(BfqGroup& root);
  ~BfqPool();  ///< asserts: no queue is busy
  BfqPool(const BfqPool&) = delete;
  BfqPool& operator=(const BfqPool&) = delete;

  [[nodiscard]] BfqContext* find(std::uint64_t issuer);
  /// The context of `issuer`; `made`: it is a new one, and its queue, if it has any, is what the
  /// issuer before it leaves. Allocates only if all are in use, and if that fails several issuers
  /// share one, with one queue.
  [[nodiscard]] BfqContext& get(std::uint64_t issuer, Instant now, bool& made);
  /// A blank queue, null: no memory.
  [[nodiscard]] BfqQueue* make_queue();
  /// Nobody needs it any more.
  void release(BfqQueue& queue) { free_queues_.push_front(queue); }
  /// The queue of all for whom there was no memory; it has nothing to do with cooperation.
  [[nodiscard]] BfqQueue& fallback() { return fallback_; }
  [[nodiscard]] bool is_fallback(const BfqQueue& queue) const { return &queue == &fallback_; }
  /// Notes that nothing of `context` is queued or at the device, or (false) something is.
  void rest(BfqContext& context, bool on, Instant now);

  /// Contexts there are, used or not.
  [[nodiscard]] std::size_t capacity() const { return contexts_.size() * kBlock; }
  /// Queues there are, used or not.
  template <class Use>
  void for_each(Use&& use) {
    for (auto& block : queues_) {
      for (unsigned n = 0; n < kBlock; ++n) use(block[n]);
    }
    use(fallback_);
  }
  template <class Use>
  void for_each_context(Use&& use) {
    for (auto& block : contexts_) {
      for (unsigned n = 0; n < kBlock; ++n) use(block[n]);
    }
    use(fallback_context_);
  }

 private:
  static constexpr unsigned kBlock = 64;
  static constexpr unsigned kTableBits = 8;

  using Bucket =
      bi::list<BfqContext, bi::member_hook<BfqContext, BfqContext::Hook, &BfqContext::by_issuer>,
               bi::constant_time_size<false>>;
  using RestList =
      bi::list<BfqContext, bi::member_hook<BfqContext, BfqContext::Hook, &BfqContext::at_rest>,
               bi::constant_time_size<false>>;
  using FreeList = bi::list<BfqQueue, bi::member_hook<BfqQueue, BfqQueue::Hook, &BfqQueue::free>,
                            bi::constant_time_size<false>>;

  [[nodiscard]] Bucket& bucket(std::uint64_t issuer);
  [[nodiscard]] BfqContext* unused(Instant now);

  BfqGroup& root_;
  std::vector<std::unique_ptr<BfqQueue[]>> queues_;
  std::vector<std::unique_ptr<BfqContext[]>> contexts_;
  BfqQueue fallback_;
  BfqContext fallback_context_;
  std::array<Bucket, 1U << kTableBits> table_;
  FreeList free_queues_;
  RestList free_contexts_;  ///< of nobody
  RestList resting_;        ///< longest at rest first
};

}  // namespace elevd::sched
