// SPDX-License-Identifier: Apache-2.0
// Selection, budgets, waiting and completion of Bfq.
#include <algorithm>

#include "assertion.hpp"
#include "bfq.hpp"

namespace elevd::sched {
namespace {

constexpr std::uint64_t kAsyncPenalty = 3;
constexpr std::uint32_t kTrustedAssignments = 194;
constexpr Duration kSeekyWait{2'000'000};
constexpr Duration kRaisedWait{20'000'000};
// Of the time charge; constants, whatever the tunables are.
constexpr std::int64_t kChargeMs = 124;
constexpr std::int64_t kLeastMsRotational = 8;
constexpr std::int64_t kLeastMs = 2;
// Detection of a device that queues.
constexpr std::uint32_t kQueueingSamples = 32;
constexpr std::uint32_t kQueueingDepth = 3;

}  // namespace

// --- Dispatch (docs/spec/bfq.md section 15, "Dispatch") ---------------------------------------

bool Bfq::has_work() const { return !bypass_.empty() || has_candidates(); }

std::optional<Instant> Bfq::wake_at() const {
  // With nothing queued there is nobody to go on with.
  return queued() != 0 ? idle_until_ : std::nullopt;
}

Request* Bfq::dispatch(Instant now) {
  note_time(now);
  if (!bypass_.empty()) {
    Request& rq = bypass_.front();
    bypass_.pop_front();
    ++counts_.dispatched;
    return &rq;
  }
  if (busy_total() == 0) return nullptr;
  if (tunables_.strict_guarantees && in_driver_ > 0) return nullptr;
  BfqQueue* const queue = select();
  return queue == nullptr ? nullptr : &serve(*queue);
}

/// The queue to take a request from: the one in service, or another one while that is empty and
/// kept; null: none, or it is better to wait.
BfqQueue* Bfq::select() {
  if (serving_ != nullptr && past_deadline(now_) && may_time_out(*serving_)) {
    expire(BfqReason::budget_timeout, std::nullopt);
  }
  for (;;) {
    if (serving_ == nullptr && pick() == nullptr) return nullptr;
    BfqQueue& queue = *serving_;
    if (!queue.empty()) {
      if (charge(queue, *queue.next) <= queue.left_of_budget()) {
        stop_waiting();
        return &queue;
      }
      expire(BfqReason::budget_exhausted, std::nullopt);
      continue;
    }
    if (waiting() || (queue.in_flight != 0 && better_to_idle(queue))) return choose_injected();
    expire(BfqReason::no_more_requests, std::nullopt);
  }
}

/// Whether its turn may end by time: not while its own next request is what is waited for, unless
/// much of its budget is left.
bool Bfq::may_time_out(const BfqQueue& queue) const {
  return (!waiting() || queue.left_of_budget() >= queue.budget / 3) && !must_idle(queue);
}

/// Takes the next queue into service, and the groups above it.
BfqQueue* Bfq::pick() {
  if (busy_total() == 0) return nullptr;
  BfqEntity* chosen = &groups_.root();
  do {
    chosen = static_cast<BfqGroup*>(chosen)->take_next(now_);
    ELEVD_ASSERT(chosen != nullptr);
  } while (chosen->is_group);
  BfqQueue& queue = static_cast<BfqQueue&>(*chosen);
  serving_ = &queue;
  slot_start_ = now_;
  const std::uint32_t factor = queue.raise == kSoft ? 1 : queue.raise;
  deadline_ = now_ + Duration{std::int64_t{tunables_.timeout_sync_ms} * 1'000'000 * factor};
  // What a soft real-time issuer had to wait does not count.
  if (queue.raise == kSoft) queue.raise_start = queue.raise_start + (now_ - queue.competes_from);
  queue.fifo_checked = false;
  budgets_assigned_ = (7 * budgets_assigned_ + 256) / 8;
  return &queue;
}

Request& Bfq::serve(BfqQueue& queue) {
  Request& rq = *queue.next;
  bfq_serve(queue, charge(queue, rq));
  queue.next = successor(queue, rq);
  unlink(queue, rq);
  note_position(queue);
  queue.was_served = true;
  queue.served_end = rq.end();
  queue.service_since_busy += rq.length.value;
  if (queue.raise > 1) queue.service_raised += rq.length.value;
  rate().dispatched(rq.length, is_far(rq, last_position_), in_driver_, now_);
  last_position_ = rq.end();
  ++queue.in_flight;
  ++in_driver_;
  ++counts_.dispatched;
  if (&queue != serving_) {
    served_out_of_turn(queue);
    return rq;
  }
  look_at_raise(queue);
  note_use(queue);
  if (queue.io_class == BfqPriority::kIdle && busy_total() > 1) {
    expire(BfqReason::budget_exhausted, std::nullopt);
  } else if (queue.empty() && !queue.has_process()) {
    expire(BfqReason::no_more_requests, std::nullopt);
  }
  return rq;
}

std::uint64_t Bfq::charge(const BfqQueue& queue, const Request& rq) const {
  const bool plain = queue.sync || queue.raise > 1 || asymmetric(queue);
  return rq.length.value * (plain ? 1 : kAsyncPenalty);
}

// --- The end of a slot (section 15, "Expire"; sections 4 and 5) -------------------------------

/// Ends the turn of the queue in service. `idle_since`: it was waited for from then on in vain.
void Bfq::expire(BfqReason reason, std::optional<Instant> idle_since) {
  BfqQueue& queue = *serving_;
  ++counts_.expired[static_cast<unsigned>(reason)];
  charge_time(queue, reason, idle_since);
  adjust_budget(queue, reason);
  stop_waiting();
  drop_sample();
  if (queue.empty()) {
    queue.soft_is_due = queue.in_flight != 0;
    if (!queue.soft_is_due) note_soft_from(queue);
  }
  if (queue.shared && queue.seeky()) queue.split_due = true;
  const bool stays =
      !queue.empty() || (reason == BfqReason::preempted && queue.has_process() && needed(queue));
  serving_ = nullptr;
  if (stays) {
    const unsigned before = queue.io_class;
    place(queue);
    --busy_[before];
    ++busy_[queue.io_class];
    bfq_requeue(queue, queue.io_class);
    queue.service = 0;
    queue.competes_from = now_;
    note_use(queue);
    return;
  }
  bfq_deactivate(queue);
  queue.busy = false;
  --busy_[queue.io_class];
  queue.hole = reason != BfqReason::budget_timeout && reason != BfqReason::budget_exhausted;
  if (!queue.hole) queue.service = 0;
  note_use(queue);
}

/// Who was slow, or had much budget left when time was over, pays for the time.
void Bfq::charge_time(BfqQueue& queue, BfqReason reason, std::optional<Instant> idle_since) {
  bool slow = false;
  std::int64_t ms = 0;
  if (queue.sync) {
    const std::int64_t took = (idle_since.value_or(now_) - slot_start_).ns;
    ms = took / 1'000'000;
    if (took < 1'000'000) ms = limits().rotational ? kLeastMsRotational : kLeastMs;
    slow = took > 20'000'000 ? queue.service < max_budget() / 2 : queue.seeky();
  }
  const bool much_left =
      reason == BfqReason::budget_timeout && queue.left_of_budget() >= queue.budget / 3;
  if (queue.raise != 1 || !(slow || much_left)) return;
  const std::uint64_t by_time = max_budget() * static_cast<std::uint64_t>(std::min(ms, kChargeMs)) /
                                static_cast<std::uint64_t>(kChargeMs);
  const std::uint64_t total = std::max(by_time, queue.service);
  queue.budget = std::max(queue.budget, total);
  bfq_serve(queue, total - queue.service);
}

void Bfq::adjust_budget(BfqQueue& queue, BfqReason reason) {
  if (reason == BfqReason::preempted) return;
  const std::uint64_t least = min_budget();
  const std::uint64_t most = max_budget();
  std::uint64_t budget = queue.max_budget;
  if (!queue.sync) {
    budget = most;
  } else if (queue.raise > 1) {
    budget = 2 * least;
  } else {
    switch (reason) {
      case BfqReason::too_idle:
        if (queue.in_flight != 0) {
          budget = std::min(2 * budget, most);
        } else {
          budget = budget > 5 * least ? budget - 4 * least : least;
        }
        break;
      case BfqReason::budget_timeout:
        budget = std::min(2 * budget, most);
        break;
      case BfqReason::budget_exhausted:
        budget = std::min(4 * budget, most);
        break;
      default:
        budget = std::max(queue.service, least);
    }
  }
  if (budgets_assigned_ >= kTrustedAssignments && tunables_.max_budget == 0) {
    budget = std::min(budget, most);
  }
  queue.max_budget = budget;
  if (!queue.empty()) queue.budget = std::max(budget, charge(queue, *queue.next));
}

/// Before it is active again: takes over a changed class, beginning anew in the tree of that.
void Bfq::place(BfqQueue& queue) {
  if (queue.wanted_class == queue.io_class) return;
  if (queue.tree != nullptr) queue.tree->remove(queue);
  queue.io_class = queue.wanted_class;
}

// --- Waiting (section 7) ----------------------------------------------------------------------

bool Bfq::asymmetric(const BfqQueue& queue) const {
  unsigned classes = 0;
  for (const std::uint32_t busy : busy_) classes += busy != 0 ? 1U : 0U;
  if (classes > 1 || groups_used_ > 1) return true;
  unsigned weights = 0;
  unsigned smallest = 0;
  for (unsigned weight = kWeights; weight > 0; --weight) {
    if (weights_[weight] == 0) continue;
    ++weights;
    smallest = weight;
  }
  return weights > 1 && queue.counted_weight != smallest;
}

bool Bfq::boosts(const BfqQueue& queue) const {
  const bool rotational = limits().rotational;
  if (raised_busy() != 0) return false;
  const bool queues = queueing_.value_or(true);
  if (rotational && !queues) return true;
  return (rotational || !queues) && !queue.seeky() && queue.io_bound && queue.short_think;
}

bool Bfq::needed(const BfqQueue& queue) const {
  constexpr std::uint32_t kMuchInDriver = 4;
  const bool for_raised = queue.raise > 1 && (raised_busy() < busy_total() ||
                                              in_driver_ >= queue.in_flight + kMuchInDriver);
  return for_raised || asymmetric(queue) || busy_total() == 1;
}

bool Bfq::better_to_idle(const BfqQueue& queue) const {
  if (!queue.has_process()) return false;
  if (tunables_.strict_guarantees) return true;
  if (tunables_.slice_idle_us == 0 || !queue.sync || queue.io_class == BfqPriority::kIdle)
    return false;
  return boosts(queue) || needed(queue);
}

void Bfq::start_waiting(BfqQueue& queue) {
  Duration wait = slice_idle();
  if (queue.seeky() && queue.raise == 1 && !asymmetric(queue)) wait = std::min(wait, kSeekyWait);
  if (queue.raise > 1) wait = std::max(wait, kRaisedWait);
  idle_since_ = now_;
  idle_until_ = now_ + wait;
}

/// The timer, looked at before everything that happens later; it acts at the time it was set to.
void Bfq::fire_timer(Instant now) {
  if (!idle_until_ || now < *idle_until_) return;
  if (now_ < *idle_until_) now_ = *idle_until_;
  stop_waiting();
  if (past_deadline(now_)) {
    expire(BfqReason::budget_timeout, idle_since_);
  } else if (serving_->empty()) {
    expire(BfqReason::too_idle, idle_since_);
  }
}

// --- Completion (section 15, "Completion") ----------------------------------------------------

void Bfq::took_out(Request& rq) {
  BfqQueue& queue = queue_of(rq);
  rq.elevator_data = nullptr;
  forget_issuer(rq);
  sample_queueing();
  --in_driver_;
  --queue.in_flight;
  bfq_count_allocated(queue, -1);
  note_allocated(queue);
  queue.last_completion = completed_last_at_ = now_;
  completed_last_ = queue.sync && queue.has_process() ? &queue : nullptr;
  if (&rq == sampled_) end_sample(queue);
  rate().completed(now_);
  if (queue.soft_is_due && queue.in_flight == 0 && queue.raise != kInteractive) {
    queue.soft_is_due = false;
    note_soft_from(queue);
  }
  note_use(queue);
  if (&queue != serving_) return;
  if (must_idle(queue)) {
    if (queue.in_flight == 0 && !waiting()) start_waiting(queue);
  } else if (past_deadline(now_) && may_time_out(queue)) {
    expire(BfqReason::budget_timeout, std::nullopt);
  } else if (queue.empty() && (queue.in_flight == 0 || !better_to_idle(queue))) {
    expire(BfqReason::no_more_requests, std::nullopt);
  }
}

bool Bfq::completed(Request& rq, Instant now) {
  note_time(now);
  ++counts_.completed;
  if (rq.elevator_data != nullptr) took_out(rq);
  return has_work() && (!waiting() || choose_injected() != nullptr);
}

/// Whether the device takes several requests at once (section 7, "NCQ").
void Bfq::sample_queueing() {
  most_in_driver_ = std::max(most_in_driver_, in_driver_);
  if (queueing_.value_or(false) || in_driver_ + queued() <= kQueueingDepth) return;
  if (serving_ != nullptr && serving_->short_think &&
      serving_->queued + serving_->in_flight < kQueueingDepth && in_driver_ < kQueueingDepth) {
    return;
  }
  if (queueing_samples_++ < kQueueingSamples) return;
  queueing_ = most_in_driver_ > kQueueingDepth;
  most_in_driver_ = 0;
  queueing_samples_ = 0;
}

/// Keeps the counts of weights in use and lets unneeded queues go; by whatever changes `busy`,
/// `in_flight`, weight or raise.
void Bfq::note_use(BfqQueue& queue) {
  const bool used = queue.busy || queue.in_flight != 0;
  const auto weight =
      static_cast<std::uint8_t>(used && queue.raise == 1 ? queue.base_weight / 10 : 0);
  if (weight != queue.counted_weight) {
    if (queue.counted_weight != 0) --weights_[queue.counted_weight];
    if (weight != 0) ++weights_[weight];
    queue.counted_weight = weight;
  }
  const bool stopped = queue.counted_used && !used;
  if (used != queue.counted_used) {
    queue.counted_used = used;
    count_use(*queue.above, used);
  }
  const bool raised = queue.busy && queue.raise > 1;
  if (raised != queue.counted_raised) {
    raised_busy_.store(raised_busy_.load() + (raised ? 1U : ~0U), std::memory_order_relaxed);
    queue.counted_raised = raised;
  }
  if (queue.busy != queue.by_busy.is_linked()) {
    queue.by_busy.unlink();
    if (queue.busy) busy_queues_.push_back(queue);
  }
  if (!stopped) return;
  queue.idle_from = now_;
  release_unneeded(queue);
}

}  // namespace elevd::sched
