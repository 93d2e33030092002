// SPDX-License-Identifier: Apache-2.0
// BfqQueue: the requests of one issuer, of several that cooperate, or of all that wait for nobody
// at one priority.
//
// Owns:       nothing; links requests that others keep alive.
// Thread:     under the elevator lock.
// Time:       an argument.
// Invariants: (1) a request is in the order and in the fifo of its queue, or in neither;
//             (2) `next` is one of them, null: there is none;
//             (3) a queue is free exactly if no context and no other queue points to it, it is not
//                 busy, and nothing of it is at the device.
// See also:   docs/spec/bfq.md sections 1, 2, 7, 8, 11; bfq.hpp (what happens to queues).
#pragma once

#include <cstdint>
#include <optional>

#include "bfq_context.hpp"
#include "bfq_tree.hpp"
#include "request.hpp"
#include "sorted_merge.hpp"
#include "units.hpp"

namespace elevd::sched {

/// The link of a queue in the list of those that another one wakes.
struct BfqWoken : bi::list_base_hook<bi::link_mode<bi::auto_unlink>> {};

struct BfqQueue : BfqEntity, BfqHabits, BfqWoken {
  using Hook = bi::list_member_hook<bi::link_mode<bi::auto_unlink>>;

  Hook free;  ///< see invariant 3
  bool sync = true;
  bool busy = false;  ///< active in a tree, or in service
  bool hole = false;  ///< may go on with what is left of its budget, if it comes back in time
  std::uint8_t io_class = 1;        ///< 0 real-time, 1 best effort, 2 idle: where it competes
  std::uint8_t wanted_class = 1;    ///< taken over when it is next activated or requeued
  std::uint8_t counted_weight = 0;  ///< level of its weight in the counts of distinct ones, 0: none
  std::uint32_t base_weight = 40;   ///< by its level

  SortedRequests order;
  RequestFifo fifo;
  Request* next = nullptr;
  std::uint32_t queued = 0;
  std::uint32_t in_flight = 0;
  std::uint64_t max_budget = 0;  ///< sectors
  bool fifo_checked = false;     ///< in this slot

  Sector last_end;  ///< of its latest request
  std::uint32_t seek_history = 1;

  // Raising (section 9).
  Instant busy_from;
  Instant competes_from;
  std::uint64_t service_since_busy = 0;  ///< sectors
  bool soft_is_due = false;              ///< soft_from is to be set when nothing is at the device
  bool counted_raised = false;
  bool counted_used = false;  ///< busy, or something of it is at the device
  bool counted_over = false;  ///< noted as holding its share of requests

  // Cooperation (section 11).
  BfqContext* owner = nullptr;       ///< its only context; null: it is shared, or of nobody
  std::uint32_t contexts = 0;        ///< that point to it
  BfqQueue* redirect = nullptr;      ///< its contexts go there with their next I/O
  std::uint32_t redirects_here = 0;  ///< queues whose contexts are to come
  BfqQueue* twin = nullptr;          ///< made just before, may be merged with for good
  std::uint32_t twins = 0;           ///< queues whose twin this is
  bool redirect_stable = false;      ///< for good
  bool shared = false;
  bool stable = false;      ///< shared for good
  bool split_due = false;   ///< its contexts no longer work at one place
  bool was_served = false;  ///< ever
  Sector served_end;        ///< where its last dispatch ended
  Sector position;          ///< where it is in the tree of positions
  bi::set_member_hook<> by_position;
  Instant made_at;
  std::optional<Instant> first_io;
  std::optional<Instant> split_at;  ///< when its owner got it by leaving a shared one

  // Injection (section 12).
  Hook by_busy;               ///< of those that are busy, in the order they became that
  BfqQueue* waker = nullptr;  ///< whose completions make this issuer go on
  bi::list<BfqWoken, bi::constant_time_size<false>> woken;  ///< whose waker this is
  std::uint64_t made_number = 0;
  std::uint64_t suspect = 0;  ///< number of the queue that may be the waker
  unsigned suspicions = 0;
  Instant suspected_from;

  [[nodiscard]] bool empty() const { return next == nullptr; }
  /// More than 19 of its last 32 requests were far from the one before.
  [[nodiscard]] bool seeky() const { return __builtin_popcount(seek_history) > 19; }
  [[nodiscard]] bool totally_seeky() const { return seek_history == 0xffffffffU; }
  /// Somebody may still send something to it. Queues of those who wait for nothing are everybody's.
  [[nodiscard]] bool has_process() const { return !sync || contexts + redirects_here != 0; }
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

}  // namespace elevd::sched
