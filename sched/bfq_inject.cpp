// SPDX-License-Identifier: Apache-2.0
// Injection of Bfq: requests of others while the queue in service is empty and kept, as many as do
// not make its own slower, and first those it may be waiting for. docs/spec/bfq.md section 12.
#include <algorithm>

#include "bfq.hpp"

namespace elevd::sched {
namespace {

constexpr Duration kSampleGap{10'000'000};
constexpr Duration kLimitLife{1'000'000'000};
constexpr Duration kLeastLimitLife{100'000'000};
constexpr std::uint64_t kLargeToInject = 64;
constexpr Duration kWakeGap{4'000'000};
constexpr unsigned kWakesToBelieve = 3;
constexpr std::int64_t kWakeSlices = 128;  // times slice_idle

}  // namespace

// --- Whose request ------------------------------------------------------------------------------

bool Bfq::may_inject(const BfqQueue& queue) const {
  return queue.busy && !queue.empty() && charge(queue, *queue.next) <= queue.left_of_budget();
}

/// Whom to serve although the one in service, which is empty, is kept; null: nobody. Under strict
/// guarantees the order of service is the order of dispatch.
BfqQueue* Bfq::choose_injected() {
  if (tunables_.strict_guarantees) return nullptr;
  BfqQueue& served = *serving_;
  if (BfqQueue* const own = own_async(served)) return own;
  if (served.waker != nullptr && may_inject(*served.waker)) return served.waker;
  if (!served.woken.empty()) {
    auto& first = static_cast<BfqQueue&>(served.woken.front());
    if (may_inject(first)) return &first;
  }
  return in_driver_ < served.inject_limit && !boosts(served) ? choose_any(served) : nullptr;
}

/// The queue of what the issuer in service does not wait for, if a request of its own is next.
BfqQueue* Bfq::own_async(const BfqQueue& served) {
  if (served.owner == nullptr) return nullptr;
  BfqQueue& queue = served.above->async(BfqPriority::of(served.owner->priority));
  return may_inject(queue) && queue.next->issuer == served.owner->issuer ? &queue : nullptr;
}

/// Who is raised and comes back soon is disturbed by its like only.
BfqQueue* Bfq::choose_any(const BfqQueue& served) {
  const bool raised_only = served.raise > 1 && served.short_think;
  if (raised_only && raised_busy() == 1) return nullptr;
  for (BfqQueue& queue : busy_queues_) {
    if (&queue == &served || (raised_only && queue.raise == 1) || !may_inject(queue)) continue;
    const bool large = !limits().rotational && queue.next->length.value >= kLargeToInject;
    if (!large || in_driver_ == 0) return &queue;
  }
  return nullptr;
}

/// A request of a queue that is not in service was taken.
void Bfq::served_out_of_turn(BfqQueue& queue) {
  ++counts_.injected;
  injected_ = true;
  bfq_served_out_of_turn(queue, queue.empty());
  if (!queue.empty()) {
    note_use(queue);
    next_changed(queue);
    return;
  }
  queue.busy = false;
  --busy_[queue.io_class];
  queue.budget = queue.service = 0;
  queue.hole = false;
  queue.soft_is_due = true;
  note_use(queue);
}

// --- How many -----------------------------------------------------------------------------------

void Bfq::reset_injection(BfqQueue& queue) {
  queue.inject_limit = queue.short_think ? 0 : 1;
  queue.time_alone.reset();
  queue.inject_from = now_;
}

void Bfq::think_time_changed(BfqQueue& queue, bool short_think) {
  queue.short_think = short_think;
  if (!short_think || queue.inject_from + kLeastLimitLife <= now_) reset_injection(queue);
}

/// `rq` is about to make the queue in service non-empty: its way through the device is measured.
void Bfq::begin_sample(BfqQueue& queue, const Request& rq) {
  if (&queue != serving_ || !queue.empty()) return;
  if (queue.inject_from + kLimitLife <= now_) reset_injection(queue);
  if (now_ < sample_start_ + kSampleGap) return;
  sampled_ = &rq;
  sample_start_ = now_;
  sample_alone_ = in_driver_ == 0;
  if (sample_alone_) injected_ = false;
}

void Bfq::end_sample(BfqQueue& queue) {
  sampled_ = nullptr;
  const Duration took = now_ - sample_start_;
  if (!injected_) {
    if (!sample_alone_) return;
    if (!queue.time_alone) queue.inject_limit = std::max(queue.inject_limit, 1U);
    queue.time_alone = took;
  } else if (queue.time_alone) {
    if (2 * took.ns >= 3 * queue.time_alone->ns) {
      queue.inject_limit -= std::min(queue.inject_limit, 1U);
    } else if (queue.inject_limit <= most_in_driver_) {
      ++queue.inject_limit;
    }
  }
}

void Bfq::drop_sample() {
  sampled_ = nullptr;
  injected_ = false;
}

// --- Wakers -------------------------------------------------------------------------------------

/// The queue becomes non-empty, perhaps because of what was completed last.
void Bfq::look_for_waker(BfqQueue& queue) {
  BfqQueue* const other = completed_last_;
  if (other == nullptr || other == &queue || other == queue.waker || other->shared ||
      queue.short_think || completed_last_at_ + kWakeGap <= now_) {
    return;
  }
  const Duration patience{kWakeSlices * slice_idle().ns};
  if (queue.suspect != other->made_number || queue.suspected_from + patience < now_) {
    queue.suspect = other->made_number;
    queue.suspicions = 1;
    queue.suspected_from = now_;
    return;
  }
  if (++queue.suspicions < kWakesToBelieve) return;
  set_waker(queue, other);
  queue.suspicions = 0;
}

/// Null: none.
void Bfq::set_waker(BfqQueue& queue, BfqQueue* waker) {
  static_cast<BfqWoken&>(queue).unlink();
  queue.waker = waker;
  queue.suspect = 0;
  if (waker != nullptr) waker->woken.push_back(queue);
}

/// The queue loses its last process: it wakes nobody and is woken by nobody.
void Bfq::forget_waking(BfqQueue& queue) {
  set_waker(queue, nullptr);
  while (!queue.woken.empty()) set_waker(static_cast<BfqQueue&>(queue.woken.front()), nullptr);
  if (completed_last_ == &queue) completed_last_ = nullptr;
}

}  // namespace elevd::sched
