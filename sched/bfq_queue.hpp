// SPDX-License-Identifier: Apache-2.0
// BfqQueue: the requests of one issuer, or of all in a group that wait for nobody at one priority;
// and BfqPool, where those of issuers come from.
//
// Owns:       BfqPool the queues; a queue links requests that others keep alive.
// Thread:     under the elevator lock.
// Time:       an argument.
// Invariants: (1) a request is in the order and in the fifo of its queue, or in neither;
//             (2) `next` is one of them, null: there is none;
//             (3) a queue is in the list of those at rest exactly if it is an issuer's, not busy,
//                 and nothing of it is at the device: only such a queue is given to somebody else.
// See also:   docs/spec/bfq.md sections 1, 2, 7, 8; bfq.hpp (what happens to queues).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bfq_tree.hpp"
#include "request.hpp"
#include "units.hpp"

namespace elevd::sched {

struct BfqQueue : BfqEntity {
  struct ByStart {
    bool operator()(const Request& a, const Request& b) const { return a.start < b.start; }
    bool operator()(const Request& a, Sector b) const { return a.start < b; }
    bool operator()(Sector a, const Request& b) const { return a < b.start; }
  };
  using Order =
      bi::multiset<Request, bi::member_hook<Request, bi::set_member_hook<>, &Request::sort_hook>,
                   bi::compare<ByStart>, bi::constant_time_size<false>>;
  using Fifo =
      bi::list<Request, bi::member_hook<Request, bi::list_member_hook<>, &Request::fifo_hook>,
               bi::constant_time_size<false>>;
  using Hook = bi::list_member_hook<bi::link_mode<bi::auto_unlink>>;

  Hook by_issuer;  ///< in the table of the pool
  Hook at_rest;    ///< see invariant 3
  std::uint64_t issuer = 0;
  bool sync = true;
  bool busy = false;  ///< active in a tree, or in service
  bool hole = false;  ///< may go on with what is left of its budget, if it comes back in time
  std::uint8_t io_class = 1;        ///< 0 real-time, 1 best effort, 2 idle: where it competes
  std::uint8_t wanted_class = 1;    ///< taken over when it is next activated or requeued
  std::uint8_t counted_weight = 0;  ///< level of its weight in the counts of distinct ones, 0: none
  std::uint32_t base_weight = 40;   ///< by its level

  Order order;
  Fifo fifo;
  Request* next = nullptr;
  std::uint32_t queued = 0;
  std::uint32_t in_flight = 0;
  std::uint64_t max_budget = 0;  ///< sectors
  bool fifo_checked = false;     ///< in this slot

  Sector last_end;  ///< of its latest request
  std::uint32_t seek_history = 1;
  std::optional<Instant> last_completion;
  // Think time: moving averages in units of 1/256.
  std::uint64_t think_samples = 0;
  std::uint64_t think_total = 0;
  bool short_think = true;
  // Whether it keeps the device busy.
  bool io_bound = true;
  std::optional<Instant> window_start;
  Duration idle_in_window;

  // Raising (section 9).
  std::optional<Instant> idle_from;  ///< nothing queued or at the device; null: it never was
  std::optional<Instant> soft_from;  ///< a request after this is one of a soft real-time issuer
  std::optional<Instant> interactive_start;  ///< of a soft real-time one that was that before
  Instant raise_start;
  Duration raise_time;
  Instant busy_from;
  Instant competes_from;
  std::uint64_t service_since_busy = 0;  ///< sectors
  std::uint64_t service_raised = 0;      ///< sectors
  bool soft_is_due = false;              ///< soft_from is to be set when nothing is at the device
  bool in_burst = false;                 ///< of a large one
  bool counted_raised = false;
  bool counted_used = false;  ///< in the counts of its group
  bool counted_over = false;  ///< noted as holding its share of requests

  [[nodiscard]] bool empty() const { return next == nullptr; }
  /// More than 19 of its last 32 requests were far from the one before.
  [[nodiscard]] bool seeky() const { return __builtin_popcount(seek_history) > 19; }
  [[nodiscard]] bool totally_seeky() const { return seek_history == 0xffffffffU; }
};

/// Class and level that a priority comes to: without a class by processor time, or best effort 4;
/// idle has the lowest level.
struct BfqPriority {
  static constexpr std::uint8_t kRealTime = 0;
  static constexpr std::uint8_t kBestEffort = 1;
  static constexpr std::uint8_t kIdle = 2;
  static constexpr std::uint8_t kLevels = 8;

  std::uint8_t io_class = 1;
  std::uint8_t level = 4;
  [[nodiscard]] static BfqPriority of(IoPriority priority);
  [[nodiscard]] std::uint32_t weight() const { return (8U - level) * 10U; }
};

class BfqPool {
 public:
  /// A queue at rest for so long may be given to another issuer.
  static constexpr Duration kKeep{5'000'000'000};

  /// New queues are of `root`.
  explicit BfqPool(BfqGroup& root);
  ~BfqPool();  ///< asserts: no queue is busy
  BfqPool(const BfqPool&) = delete;
  BfqPool& operator=(const BfqPool&) = delete;

  [[nodiscard]] BfqQueue* find(std::uint64_t issuer);
  /// The queue of `issuer`; a new one is blank, `made` says so. Allocates only if all are in use,
  /// and if that fails several issuers share one.
  [[nodiscard]] BfqQueue& get(std::uint64_t issuer, Instant now, bool& made);
  /// Notes that the queue is not used, or (false) is.
  void rest(BfqQueue& queue, bool on);

  /// Queues of issuers there are, used or not.
  [[nodiscard]] std::size_t capacity() const { return blocks_.size() * kBlock; }
  template <class Use>
  void for_each(Use&& use) {
    for (auto& block : blocks_) {
      for (unsigned n = 0; n < kBlock; ++n) use(block[n]);
    }
    use(shared_);
  }

 private:
  static constexpr unsigned kBlock = 64;
  static constexpr unsigned kTableBits = 8;

  using Bucket = bi::list<BfqQueue, bi::member_hook<BfqQueue, BfqQueue::Hook, &BfqQueue::by_issuer>,
                          bi::constant_time_size<false>>;
  using RestList = bi::list<BfqQueue, bi::member_hook<BfqQueue, BfqQueue::Hook, &BfqQueue::at_rest>,
                            bi::constant_time_size<false>>;

  [[nodiscard]] Bucket& bucket(std::uint64_t issuer);
  [[nodiscard]] BfqQueue* unused(Instant now);

  BfqGroup& root_;
  std::vector<std::unique_ptr<BfqQueue[]>> blocks_;
  BfqQueue shared_;
  std::array<Bucket, 1U << kTableBits> table_;
  RestList free_;     ///< of nobody
  RestList resting_;  ///< longest at rest first
};

}  // namespace elevd::sched
