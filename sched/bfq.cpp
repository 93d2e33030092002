// SPDX-License-Identifier: Apache-2.0
// Arrival, request order, depth and invariants of Bfq. Selection: bfq_dispatch.cpp; merging:
// bfq_merge.cpp.
#include "bfq.hpp"

#include <algorithm>

#include "assertion.hpp"

namespace elevd::sched {
namespace {

constexpr Duration from_ms(std::uint32_t ms) { return {std::int64_t{ms} * 1'000'000}; }

constexpr std::uint64_t kFarSectors = 800;
constexpr std::uint64_t kLargeSectors = 64;
constexpr std::uint64_t kBlockSectors = 32;
constexpr std::uint64_t kEnoughSamples = 80;  // three of them, in units of 1/256
constexpr Duration kIoBoundWindow{200'000'000};

}  // namespace

Bfq::~Bfq() {
  ELEVD_ASSERT(bypass_.empty() && last_merge() == nullptr && queued() == 0 && in_driver_ == 0);
}

void Bfq::note_time(Instant now) {
  fire_timer(now);
  if (now_ < now) now_ = now;
}

void Bfq::set_tunables(const BfqTunables& tunables) {
  constexpr std::uint32_t kStrictIdle = 8000;
  const bool strict_now = tunables.strict_guarantees && !tunables_.strict_guarantees;
  tunables_ = tunables;
  if (strict_now) tunables_.slice_idle_us = std::max(tunables_.slice_idle_us, kStrictIdle);
  if (!tunables_.low_latency) end_all_raising();
}

BfqRate& Bfq::rate() {
  if (!rate_) rate_.emplace(limits().rotational);
  return *rate_;
}

/// What the user says, else what the device does in the time of a slot, once enough slots were
/// seen.
std::uint64_t Bfq::max_budget() const {
  constexpr std::uint32_t kTrustedAssignments = 194;
  if (tunables_.max_budget != 0) return tunables_.max_budget;
  if (budgets_assigned_ < kTrustedAssignments || !rate_) return kDefaultMaxBudget;
  return std::max<std::uint64_t>(rate_->sectors_in_ms(tunables_.timeout_sync_ms), 1);
}

// --- Insertion (docs/spec/bfq.md section 15, "Insert") ----------------------------------------

void Bfq::insert(RequestList& list, RequestList& merged, Instant now) {
  note_time(now);
  expect(list);
  while (!list.empty()) {
    Request& rq = list.front();
    list.pop_front();
    insert_one(rq, merged);
  }
}

void Bfq::insert_one(Request& rq, RequestList& merged) {
  if (rq.elevator_data != nullptr) {  // it comes back from the driver
    took_out(rq);
  } else {
    ++counts_.inserted;
  }
  rq.inserted = now_;
  if ((rq.flags & kRqAtHead) != 0) {
    bypass_.push_back(rq);
    return;
  }
  BfqQueue& queue = queue_for(rq);
  if (queue.made_number == 0) {
    queue.made_number = ++queues_made_;
    if (queue.max_budget == 0) queue.max_budget = max_budget() * 2 / 3;
  }
  rq.elevator_data = &queue;
  const std::uint32_t expire =
      queue.sync ? tunables_.fifo_expire_sync_ms : tunables_.fifo_expire_async_ms;
  rq.elevator_word = static_cast<std::uint64_t>((now_ + from_ms(expire)).ns);
  const auto before = merge_in(rq, merged);
  if (!before) return;
  arrive(queue, rq, *before);
  note_allocated(queue);
  link_merge(rq);
}

/// A read is waited for, and so is a write that says it; the rest goes to the shared queue of its
/// priority.
BfqQueue& Bfq::queue_for(Request& rq) {
  rq.elevator_issuer = nullptr;
  if (!is_sync(rq.op, rq.bio_flags)) {
    return group_for(rq.group).async(BfqPriority::of(rq.priority));
  }
  BfqContext& context = context_for(rq);
  if (context.queue->split_due && !context.stably_merged) split(context);
  rq.elevator_issuer = &context;
  note_outstanding(context, true);
  return follow(context, rq.start);
}

/// Null: the issuer has none yet.
BfqQueue* Bfq::known_queue_for(const Bio& bio) {
  if (!is_sync(bio.op, bio.flags)) {
    BfqGroup* const group = groups_.find(bio.group);
    return group == nullptr ? nullptr : &group->async(BfqPriority::of(bio.priority));
  }
  BfqContext* const context = pool_.find(bio.issuer);
  if (context == nullptr || context->queue->above->id != bio.group) return nullptr;
  return &follow(*context, bio.start);
}

void Bfq::arrive(BfqQueue& queue, Request& rq, SortedRequests::iterator before) {
  if (!queue.first_io) queue.first_io = now_;
  note_think_time(queue);
  note_seek(queue, rq);
  const auto* const context = static_cast<BfqContext*>(rq.elevator_issuer);
  if (context != nullptr && context->outstanding <= 1) {
    if (queue.empty()) look_for_waker(queue);
    begin_sample(queue, rq);
  }
  note_io_bound(queue);
  link(queue, rq, before);
  queue.fifo.push_back(rq);
  const Request* const next = queue.next;
  queue.next = better(queue, queue.next, &rq, last_position_);
  note_position(queue);
  if (!queue.busy) {
    become_busy(queue);
  } else if (queue.next != next) {
    next_changed(queue);
  }
  if (&queue == serving_) arrived_in_service(queue, rq);
}

/// Section 7, "Statistics".
void Bfq::note_think_time(BfqQueue& queue) {
  if (!queue.sync || queue.busy || queue.in_flight != 0 || !queue.last_completion) return;
  const std::int64_t most = 2 * slice_idle().ns;
  const std::int64_t thought =
      std::clamp<std::int64_t>((now_ - *queue.last_completion).ns, 0, most);
  queue.think_samples = (7 * queue.think_samples + 256) / 8;
  queue.think_total = (7 * queue.think_total + 256 * static_cast<std::uint64_t>(thought)) / 8;
  if (queue.think_samples <= kEnoughSamples) return;
  const std::uint64_t mean = (queue.think_total + 128) / queue.think_samples;
  const bool short_think = 2 * mean <= static_cast<std::uint64_t>(slice_idle().ns);
  if (short_think != queue.short_think) think_time_changed(queue, short_think);
}

void Bfq::note_io_bound(BfqQueue& queue) {
  if (!queue.window_start) queue.window_start = now_;
  if (queue.empty() && queue.in_flight == 0 && queue.last_completion) {
    queue.idle_in_window = queue.idle_in_window + (now_ - *queue.last_completion);
  }
  const Duration window = now_ - *queue.window_start;
  queue.io_bound = queue.idle_in_window.ns * 5 <= window.ns;
  if (window <= kIoBoundWindow) return;
  queue.window_start = now_ + Duration{-window.ns / 2};
  queue.idle_in_window.ns /= 2;
}

/// Section 5, "Seeky request".
void Bfq::note_seek(BfqQueue& queue, const Request& rq) {
  queue.seek_history = (queue.seek_history << 1U) | (is_far(rq, queue.last_end) ? 1U : 0U);
  queue.last_end = rq.end();
}

bool Bfq::is_far(const Request& rq, Sector from) const {
  return apart(rq.start, from).value > kFarSectors &&
         (limits().rotational || rq.length.value < kLargeSectors);
}

/// Into the order; it is put into the fifo by the caller.
void Bfq::link(BfqQueue& queue, Request& rq, SortedRequests::iterator before) {
  queue.order.insert_before(before, rq);
  ++queue.queued;
  bfq_count_allocated(queue, 1);
  queued_.store(queued() + 1, std::memory_order_release);
}

/// Out of everything it is in; `next` is the caller's affair.
void Bfq::unlink(BfqQueue& queue, Request& rq) {
  if (rq.fifo_hook.is_linked()) {
    queue.fifo.erase(queue.fifo.iterator_to(rq));
    queue.order.erase(queue.order.iterator_to(rq));
    --queue.queued;
    queued_.store(queued() - 1, std::memory_order_release);
  }
  unlink_merge(rq);
}

// --- Order inside a queue (section 8) ---------------------------------------------------------

/// Which of two requests of a queue comes first, with the head at `head`. Either may be null.
Request* Bfq::better(const BfqQueue&, Request* a, Request* b, Sector head) const {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  const std::uint64_t back_max = std::uint64_t{tunables_.back_seek_max_kb} * 2;
  const auto cost = [&](const Request& rq) -> std::optional<std::uint64_t> {
    if (rq.start >= head) return (rq.start - head).value;
    const std::uint64_t back = (head - rq.start).value;
    if (back > back_max) return std::nullopt;
    return back * tunables_.back_seek_penalty;
  };
  const auto cost_a = cost(*a);
  const auto cost_b = cost(*b);
  if (!cost_a && !cost_b) return b->start < a->start ? b : a;
  if (!cost_a || !cost_b) return cost_a ? a : b;
  if (*cost_a != *cost_b) return *cost_a < *cost_b ? a : b;
  return a->start < b->start ? b : a;
}

/// What follows `rq`, which is about to leave: a neighbour, or once in a slot the oldest if it is
/// past its deadline.
Request* Bfq::successor(BfqQueue& queue, Request& rq) {
  if (!queue.fifo_checked) {
    queue.fifo_checked = true;
    auto oldest = queue.fifo.begin();
    if (oldest != queue.fifo.end() && &*oldest == &rq) ++oldest;
    if (oldest != queue.fifo.end() && static_cast<std::int64_t>(oldest->elevator_word) <= now_.ns) {
      return &*oldest;
    }
  }
  const auto at = queue.order.iterator_to(rq);
  Request* const before = at == queue.order.begin() ? nullptr : &*std::prev(at);
  auto next = std::next(at);
  if (next == queue.order.end()) next = queue.order.begin();
  Request* const after = &*next == &rq ? nullptr : &*next;
  return better(queue, after, before, rq.start);
}

/// The budget has to do for the next request; that of the one in service is never changed.
void Bfq::next_changed(BfqQueue& queue) {
  note_position(queue);
  if (!queue.busy || &queue == serving_ || queue.empty()) return;
  const std::uint64_t budget =
      std::max({queue.max_budget, charge(queue, *queue.next), queue.service});
  if (budget == queue.budget) return;
  queue.budget = budget;
  bfq_reposition(queue);
}

// --- From idle to busy (section 6) ------------------------------------------------------------

void Bfq::become_busy(BfqQueue& queue) {
  const bool in_time =
      queue.last_completion && now_ <= *queue.last_completion + Duration{3 * slice_idle().ns};
  const bool recovers =
      queue.hole && in_time && queue.left_of_budget() > 0 && queue.wanted_class == queue.io_class;
  if (recovers) {
    queue.budget = std::min(queue.left_of_budget(), queue.max_budget);
  } else {
    queue.budget = std::max(queue.max_budget, charge(queue, *queue.next));
  }
  queue.service = 0;
  queue.hole = false;
  decide_raise(queue);
  queue.busy_from = queue.competes_from = now_;
  queue.service_since_busy = 0;
  queue.soft_is_due = false;
  place(queue);
  bfq_activate(queue, queue.io_class, recovers);
  queue.busy = true;
  ++busy_[queue.io_class];
  note_use(queue);
  if (serving_ != nullptr && preempts(queue, recovers)) expire(BfqReason::preempted, std::nullopt);
}

/// Section 7, "arrival while waiting". A small first request does not end the waiting by itself,
/// but the run of the queue that follows serves it.
void Bfq::arrived_in_service(BfqQueue& queue, const Request& rq) {
  if (!waiting()) return;
  const bool timed_out = past_deadline(now_);
  if (queue.queued == 1 && rq.length.value < kBlockSectors && boosts(queue) && !timed_out) return;
  stop_waiting();
  if (timed_out) expire(BfqReason::budget_timeout, std::nullopt);
}

// --- Invariants -------------------------------------------------------------------------------

/// Of section 11; I20.
void Bfq::check_cooperation(const BfqQueue& queue) const {
  ELEVD_ASSERT(!queue.free.is_linked() || (!queue.counted_used && queue.contexts == 0));
  ELEVD_ASSERT(queue.redirect == nullptr || queue.has_process());
  const BfqQueue* end = &queue;
  for (unsigned steps = 0; end->redirect != nullptr; end = end->redirect) {
    ELEVD_ASSERT(++steps < 1000 && end->redirect->redirects_here != 0);
  }
  if (queue.owner != nullptr) {
    ELEVD_ASSERT(queue.contexts == 1 && queue.owner->queue == &queue && !queue.shared);
    ELEVD_ASSERT(queue.base_weight == BfqPriority::of(queue.owner->priority).weight());
  }
  ELEVD_ASSERT(!queue.by_position.is_linked() ||
               (!queue.empty() && queue.position == queue.next->start));
  if (&queue == serving_ && queue.empty()) ELEVD_ASSERT(queue.has_process());
}

void Bfq::check_contexts() {
  std::uint32_t outstanding = 0;
  std::size_t contexts = 0;
  pool_.for_each_context([&](const BfqContext& context) {
    ELEVD_ASSERT(!context.by_issuer.is_linked() || context.queue != nullptr);
    if (context.queue == nullptr) return;
    ++contexts;
    outstanding += context.outstanding;
    ELEVD_ASSERT(!context.by_issuer.is_linked() ||
                 context.at_rest.is_linked() == (context.outstanding == 0));
  });
  std::size_t counted = 0;
  std::uint32_t expected = 0;
  pool_.for_each([&](const BfqQueue& queue) {
    counted += queue.contexts;
    expected += queue.queued + queue.in_flight;
  });
  ELEVD_ASSERT(contexts == counted && outstanding == expected);
}

void Bfq::check() {
  std::array<std::uint32_t, kClasses> busy{};
  std::array<std::uint32_t, kWeights + 1> weights{};
  std::uint32_t all_queued = 0;
  std::uint32_t in_flight = 0;
  std::uint32_t raised = 0;
  const auto look_at = [&](BfqQueue& queue) {
    ELEVD_ASSERT(queue.order.size() == queue.queued && queue.fifo.size() == queue.queued);
    ELEVD_ASSERT(queue.empty() == (queue.queued == 0));
    ELEVD_ASSERT(std::is_sorted(queue.order.begin(), queue.order.end(), ByStart{}));
    bool next_is_queued = queue.empty();
    for (const Request& rq : queue.fifo) {
      ELEVD_ASSERT(rq.sort_hook.is_linked() && &queue_of(rq) == &queue);
      next_is_queued = next_is_queued || &rq == queue.next;
    }
    ELEVD_ASSERT(next_is_queued);
    const bool competes = queue.place == BfqEntity::Place::active || &queue == serving_;
    ELEVD_ASSERT(queue.busy == competes && (queue.empty() || queue.busy));
    if (queue.busy) {
      ELEVD_ASSERT(queue.tree == &queue.above->trees[queue.io_class]);
      ELEVD_ASSERT(&queue == serving_ || queue.empty() ||
                   queue.budget >= charge(queue, *queue.next) || queue.budget > 0);
      ++busy[queue.io_class];
    }
    const bool used = queue.busy || queue.in_flight != 0;
    ELEVD_ASSERT((queue.counted_weight != 0) == (used && queue.raise == 1));
    if (used && queue.raise == 1) ++weights[queue.counted_weight];
    ELEVD_ASSERT(queue.counted_used == used);
    check_cooperation(queue);
    if (queue.busy && queue.raise > 1) ++raised;
    all_queued += queue.queued;
    in_flight += queue.in_flight;
  };
  pool_.for_each(look_at);
  groups_.for_each([&](BfqGroup& group) { group.for_each_async(look_at); });
  check_contexts();
  ELEVD_ASSERT(busy == busy_ && weights == weights_);
  ELEVD_ASSERT(raised == raised_busy());
  ELEVD_ASSERT(all_queued == queued() && in_flight == in_driver_);
  ELEVD_ASSERT(!waiting() || serving_ != nullptr);
  ELEVD_ASSERT(last_merge() == nullptr || last_merge()->fifo_hook.is_linked());
  check_groups();
  hash().each([](const Request& rq) { ELEVD_ASSERT(rq.fifo_hook.is_linked() && mergeable(rq)); });
}

}  // namespace elevd::sched
