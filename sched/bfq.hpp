// SPDX-License-Identifier: Apache-2.0
// Bfq: the elevator that serves issuers one at a time, each its share of the sectors or of the
// time.
//
// Owns:       the queues of issuers, the service trees; links requests that the queue keeps alive.
// Thread:     as Elevator says. limit and has_candidates run without the lock.
// Time:       `now` of each call; an earlier one than was seen before counts as that one. The end
// of
//             waiting for the next request of an issuer is wake_at().
// Invariants: (1) a queue is busy exactly if it is active in the tree of its class or in service;
//             (2) the one in service is in no tree; it may be empty: then it is waited for, or
//                 something of it is at the device;
//             (3) inserted = dispatched + merged + queued; what is at the device is what was
//                 dispatched and is not completed.
//             Those of the trees and queues: bfq_tree.hpp, bfq_queue.hpp.
// See also:   docs/spec/bfq.md, which the functions follow section by section; what is not built of
//             it: docs/architecture.md.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "bfq_admission.hpp"
#include "bfq_group.hpp"
#include "bfq_pool.hpp"
#include "bfq_rate.hpp"
#include "bfq_tree.hpp"
#include "elevator.hpp"
#include "sorted_merge.hpp"

namespace elevd::sched {

/// Ranges and defaults: docs/spec/bfq.md section 16.
struct BfqTunables {
  std::uint32_t fifo_expire_sync_ms = 125;   ///< 1..INT_MAX
  std::uint32_t fifo_expire_async_ms = 250;  ///< 1..INT_MAX
  std::uint32_t back_seek_max_kb = 16384;    ///< 0..INT_MAX
  std::uint32_t back_seek_penalty = 2;       ///< 1..INT_MAX
  std::uint32_t slice_idle_us = 8000;        ///< 0: never waits for an issuer
  std::uint32_t max_budget = 0;              ///< sectors, 0..INT_MAX; 0: by itself
  std::uint32_t timeout_sync_ms = 124;       ///< 4..2^31
  bool strict_guarantees = false;
  bool low_latency = true;
};

/// Why an issuer's turn ends.
enum class BfqReason : std::uint8_t {
  too_idle,
  budget_timeout,
  budget_exhausted,
  no_more_requests,
  preempted
};

class Bfq final : public Elevator, private SortedMerge<Bfq, BfqQueue> {
 public:
  static constexpr std::string_view kName = "bfq";
  static constexpr unsigned kClasses = BfqGroup::kClasses;
  static constexpr std::uint64_t kDefaultMaxBudget = 16384;

  Bfq() = default;
  ~Bfq() override;  ///< asserts: nothing queued, nothing at the device

  [[nodiscard]] std::string_view name() const override { return kName; }
  void insert(RequestList& list, RequestList& merged, Instant now) override;
  Request* dispatch(Instant now) override;
  [[nodiscard]] bool has_work() const override;
  [[nodiscard]] bool has_candidates() const override { return queued() != 0; }
  MergeResult bio_merge(Bio& bio, RequestList& merged, Instant now) override;
  [[nodiscard]] bool allow_merge(const Request& rq, const Bio& bio) const override;
  [[nodiscard]] bool completed(Request& rq, Instant now) override;
  [[nodiscard]] DepthLimit limit(const Bio& bio) const override;
  [[nodiscard]] std::uint32_t default_async_depth(std::uint32_t nr_requests) const override;
  [[nodiscard]] std::uint32_t depth_updated(std::uint32_t nr_requests,
                                            std::uint32_t async_depth) override;
  [[nodiscard]] std::optional<Instant> wake_at() const override;
  [[nodiscard]] bool knows_groups() const override { return true; }
  void group_weights_changed() override;

  [[nodiscard]] const BfqTunables& tunables() const { return tunables_; }
  void set_tunables(const BfqTunables& tunables);

  // --- For tests ----------------------------------------------------------------------------

  [[nodiscard]] const BfqQueue* in_service() const { return serving_; }
  [[nodiscard]] bool waiting() const { return idle_until_.has_value(); }
  /// Null: the issuer is not known.
  [[nodiscard]] const BfqQueue* queue_of(std::uint64_t issuer) {
    const BfqContext* const context = pool_.find(issuer);
    return context == nullptr ? nullptr : context->queue;
  }
  /// False: queues made at one time stay apart.
  void join_twins(bool on) { joins_twins_ = on; }
  [[nodiscard]] const BfqQueue& async_queue(IoPriority priority) {
    return groups_.root().async(BfqPriority::of(priority));
  }
  [[nodiscard]] std::uint32_t group_count() const { return groups_.count(); }
  /// Null: it was not seen yet.
  [[nodiscard]] BfqGroup* group(GroupId id) { return groups_.find(id); }
  [[nodiscard]] BfqGroup& root() { return groups_.root(); }
  [[nodiscard]] std::uint32_t busy(unsigned io_class) const { return busy_[io_class]; }
  [[nodiscard]] std::uint32_t queued() const { return queued_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint32_t in_driver() const { return in_driver_; }
  [[nodiscard]] std::uint64_t max_budget() const;
  [[nodiscard]] const BfqPool& pool() const { return pool_; }
  /// What the device is thought to do.
  [[nodiscard]] BfqRate& rate();
  [[nodiscard]] std::uint32_t raised_busy() const { return raised_busy_.load(); }
  /// Sectors that serving a request counts.
  [[nodiscard]] std::uint64_t charge(const BfqQueue& queue, const Request& rq) const;
  [[nodiscard]] bool better_to_idle(const BfqQueue& queue) const;
  struct Counts {
    std::uint64_t inserted = 0;
    std::uint64_t merged = 0;
    std::uint64_t dispatched = 0;
    std::uint64_t completed = 0;
    std::uint64_t redirected = 0;            ///< merges of a queue into another
    std::uint64_t joined = 0;                ///< issuers that went to another queue by that
    std::uint64_t split = 0;                 ///< issuers that got one of their own again
    std::uint64_t injected = 0;              ///< requests served while another queue was kept
    std::array<std::uint64_t, 5> expired{};  ///< by reason
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// Ends the program unless the invariants hold; it looks at everything.
  void check();

 private:
  friend SortedMerge<Bfq, BfqQueue>;
  static constexpr unsigned kWeights = 8;            ///< 10, 20 ... 80
  static constexpr std::uint32_t kInteractive = 30;  ///< factors of a weight
  static constexpr std::uint32_t kSoft = 3000;
  static constexpr unsigned kLargeBurst = 8;

  [[nodiscard]] static BfqQueue& queue_of(const Request& rq) {
    return *static_cast<BfqQueue*>(rq.elevator_data);
  }
  void note_time(Instant now);

  // Insertion: bfq.cpp.
  void insert_one(Request& rq, RequestList& merged);
  [[nodiscard]] BfqQueue& queue_for(Request& rq);
  [[nodiscard]] BfqQueue* known_queue_for(const Bio& bio);
  [[nodiscard]] BfqGroup& group_for(GroupId id) {
    return groups_.get(id, groups(), group_weights());
  }
  void move(BfqQueue& queue, BfqGroup& group);
  void count_use(BfqGroup& group, bool used);
  void arrive(BfqQueue& queue, Request& rq, SortedRequests::iterator before);
  void note_think_time(BfqQueue& queue);
  void note_io_bound(BfqQueue& queue);
  void note_seek(BfqQueue& queue, const Request& rq);
  [[nodiscard]] bool is_far(const Request& rq, Sector from) const;
  void link(BfqQueue& queue, Request& rq, SortedRequests::iterator before);
  void unlink(BfqQueue& queue, Request& rq);
  [[nodiscard]] Request* better(const BfqQueue& queue, Request* a, Request* b, Sector head) const;
  [[nodiscard]] Request* successor(BfqQueue& queue, Request& rq);
  void next_changed(BfqQueue& queue);
  void become_busy(BfqQueue& queue);
  void arrived_in_service(BfqQueue& queue, const Request& rq);
  void took_out(Request& rq);
  [[nodiscard]] bool preempts(const BfqQueue& queue, bool recovers) const;
  void note_allocated(BfqQueue& queue);
  void hold_share(BfqQueue& queue, bool over);
  [[nodiscard]] bool holds_its_share(const Bio& bio) const;
  void check_groups();

  // Cooperation: bfq_cooperate.cpp.
  struct ByPosition {
    bool operator()(const BfqQueue& a, const BfqQueue& b) const { return a.position < b.position; }
    bool operator()(const BfqQueue& a, Sector b) const { return a.position < b; }
  };
  using Positions =
      bi::multiset<BfqQueue,
                   bi::member_hook<BfqQueue, bi::set_member_hook<>, &BfqQueue::by_position>,
                   bi::compare<ByPosition>, bi::constant_time_size<false>>;
  [[nodiscard]] BfqContext& context_for(const Request& rq);
  void change_group(BfqContext& context, BfqGroup& group);
  void give_queue(BfqContext& context, BfqQueue& queue, BfqGroup& group);
  void give_own_queue(BfqContext& context, BfqGroup& group);
  static void take_priority(BfqQueue& queue, IoPriority priority);
  void note_outstanding(BfqContext& context, bool more);
  void forget_issuer(Request& rq);
  void leave(BfqContext& context);
  void lost_process(BfqQueue& queue);
  void release_unneeded(BfqQueue& queue);
  [[nodiscard]] bool looks_for_partners() const;
  void note_position(BfqQueue& queue);
  [[nodiscard]] BfqQueue* nearest(Sector position);
  [[nodiscard]] bool too_late_to_merge(const BfqQueue& queue) const;
  [[nodiscard]] bool may_cooperate(const BfqQueue& queue, const BfqQueue& with) const;
  [[nodiscard]] BfqQueue* find_partner(BfqQueue& queue, Sector position);
  [[nodiscard]] BfqQueue* redirect(BfqQueue& queue, BfqQueue& into, bool stable);
  [[nodiscard]] BfqQueue& follow(BfqContext& context, Sector position);
  void change_queue(BfqContext& context, BfqQueue& into);
  void save(BfqQueue& queue);
  void hand_over_raise(BfqQueue& from, BfqQueue& into);
  void split(BfqContext& context);
  void restore(BfqQueue& queue);
  void look_for_twin(BfqContext& context);
  void forget_twin(BfqQueue& queue);
  [[nodiscard]] BfqQueue* due_twin(BfqQueue& queue);

  // Injection: bfq_inject.cpp.
  using BusyQueues =
      bi::list<BfqQueue, bi::member_hook<BfqQueue, BfqQueue::Hook, &BfqQueue::by_busy>,
               bi::constant_time_size<false>>;
  [[nodiscard]] bool may_inject(const BfqQueue& queue) const;
  [[nodiscard]] BfqQueue* choose_injected();
  [[nodiscard]] BfqQueue* own_async(const BfqQueue& served);
  [[nodiscard]] BfqQueue* choose_any(const BfqQueue& served);
  void served_out_of_turn(BfqQueue& queue);
  void reset_injection(BfqQueue& queue);
  void think_time_changed(BfqQueue& queue, bool short_think);
  void begin_sample(BfqQueue& queue, const Request& rq);
  void end_sample(BfqQueue& queue);
  void drop_sample();
  void look_for_waker(BfqQueue& queue);
  void set_waker(BfqQueue& queue, BfqQueue* waker);
  void forget_waking(BfqQueue& queue);

  // Selection: bfq_dispatch.cpp.
  [[nodiscard]] BfqQueue* select();
  [[nodiscard]] BfqQueue* pick();
  [[nodiscard]] Request& serve(BfqQueue& queue);
  void expire(BfqReason reason, std::optional<Instant> idle_since);
  void charge_time(BfqQueue& queue, BfqReason reason, std::optional<Instant> idle_since);
  void adjust_budget(BfqQueue& queue, BfqReason reason);
  void place(BfqQueue& queue);
  void start_waiting(BfqQueue& queue);
  void stop_waiting() { idle_until_.reset(); }
  void fire_timer(Instant now);
  [[nodiscard]] bool past_deadline(Instant at) const { return deadline_ <= at; }
  [[nodiscard]] bool may_time_out(const BfqQueue& queue) const;
  [[nodiscard]] bool asymmetric(const BfqQueue& queue) const;
  [[nodiscard]] bool boosts(const BfqQueue& queue) const;
  [[nodiscard]] bool needed(const BfqQueue& queue) const;
  [[nodiscard]] bool must_idle(const BfqQueue& queue) const {
    return queue.empty() && better_to_idle(queue);
  }
  [[nodiscard]] std::uint32_t busy_total() const { return busy_[0] + busy_[1] + busy_[2]; }
  void note_use(BfqQueue& queue);
  void sample_queueing();
  [[nodiscard]] Duration slice_idle() const {
    return {std::int64_t{tunables_.slice_idle_us} * 1000};
  }
  [[nodiscard]] std::uint64_t min_budget() const { return max_budget() / 32; }

  // Low latency: bfq_raise.cpp.
  void note_created(BfqQueue& queue);
  void raise(BfqQueue& queue, std::uint32_t factor, Instant start, Duration time);
  void raise_interactive(BfqQueue& queue);
  void end_raise(BfqQueue& queue);
  void end_soft(BfqQueue& queue);
  void decide_raise(BfqQueue& queue);
  void look_at_raise(BfqQueue& queue);
  void note_soft_from(BfqQueue& queue);
  void end_all_raising();

  // Merging: bfq_merge.cpp.
  [[nodiscard]] static BfqQueue& place_of(const Request& rq) { return queue_of(rq); }
  [[nodiscard]] static bool is_in(const Request& rq, const BfqQueue& queue) {
    return &queue_of(rq) == &queue;
  }
  [[nodiscard]] static SortedRequests& order(BfqQueue& queue) { return queue.order; }
  [[nodiscard]] static RequestFifo& fifo(BfqQueue& queue) { return queue.fifo; }
  [[nodiscard]] static bool front_merges() { return true; }
  void link(Request& rq, SortedRequests::iterator before) { link(queue_of(rq), rq, before); }
  void merged_away(Request& rq, RequestList& merged);
  static void replaced(const Request& rq, Request& by);
  static void grown(const Request& rq, Sector from, Sector to);
  void moved(Request& rq);
  void changed(const Request& rq);

  void check_cooperation(const BfqQueue& queue) const;
  void check_contexts();

  BfqTunables tunables_;
  BfqGroups groups_;
  BfqPool pool_{groups_.root()};
  std::uint32_t groups_used_ = 0;  ///< groups with queues that are used
  BfqAdmission over_limit_;
  std::array<std::uint32_t, kClasses> busy_{};
  std::array<std::uint32_t, kWeights + 1> weights_{};  ///< queues in use, by weight / 10
  RequestList bypass_;                                 ///< inserted at head
  std::uint32_t in_driver_ = 0;
  Counts counts_;
  Instant now_;

  BfqQueue* serving_ = nullptr;
  Instant slot_start_;
  Instant deadline_;  ///< of the slot
  Instant idle_since_;
  std::optional<Instant> idle_until_;   ///< the one in service is empty and waited for
  Sector last_position_;                ///< end of what was dispatched last
  std::uint32_t budgets_assigned_ = 0;  ///< moving average; 194: enough to be trusted
  // Whether the device takes several requests at once; unknown counts as yes.
  std::optional<bool> queueing_;
  std::uint32_t queueing_samples_ = 0;
  std::uint32_t most_in_driver_ = 0;

  std::optional<BfqRate> rate_;  ///< made when first used: it depends on the kind of the disk
  std::array<BfqQueue*, kLargeBurst> burst_{};
  unsigned burst_size_ = 0;
  bool large_burst_ = false;
  GroupId burst_group_ = kRootGroup;
  Instant last_created_;

  Positions positions_;  ///< queues, by their next request
  bool joins_twins_ = true;

  BusyQueues busy_queues_;
  std::uint64_t queues_made_ = 0;
  const Request* sampled_ = nullptr;  ///< its way through the device is measured
  Instant sample_start_;
  bool sample_alone_ = false;  ///< it began with nothing at the device
  bool injected_ = false;      ///< since then, or what was injected may be there still
  BfqQueue* completed_last_ = nullptr;
  Instant completed_last_at_;

  std::atomic<std::uint32_t> raised_busy_{0};  ///< written under the lock
  std::atomic<std::uint32_t> async_depth_{Sbitmap::kUnlimited};
  std::atomic<std::uint32_t> nr_requests_{0};

  // Apart from what is under the lock: who looks for a merge reads it without.
  alignas(64) std::atomic<std::uint32_t> queued_{0};  ///< in queues; written under the lock
};

}  // namespace elevd::sched
