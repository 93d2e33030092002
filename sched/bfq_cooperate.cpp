// SPDX-License-Identifier: Apache-2.0
// Cooperation of Bfq: issuers that work at one place share a queue, so that their requests can be
// sorted and merged, until they go apart. docs/spec/bfq.md section 11.
#include <algorithm>
#include <iterator>
#include <utility>

#include "bfq.hpp"

namespace elevd::sched {
namespace {

constexpr std::uint64_t kCloseSectors = 8192;
constexpr Duration kMergeTime{100'000'000};   // of the life of a queue
constexpr Duration kTwinTime{180'000'000};    // between two that may be twins
constexpr Duration kTwinMemory{600'000'000};  // how long the older one is remembered
constexpr Duration kTwinDelay{600'000'000};   // before they are merged for good

bool is_close(Sector a, Sector b) { return apart(a, b).value <= kCloseSectors; }

BfqQueue& end_of_redirects(BfqQueue& queue) {
  BfqQueue* end = &queue;
  while (end->redirect != nullptr) end = end->redirect;
  return *end;
}

}  // namespace

// --- Contexts ---------------------------------------------------------------------------------

/// The context of the issuer of `rq`, with a queue, and with the priority and the group it has now.
BfqContext& Bfq::context_for(const Request& rq) {
  bool made = false;
  BfqContext& context = pool_.get(rq.issuer, now_, made);
  if (made) {
    if (context.queue != nullptr) leave(context);
    context.priority = rq.priority;
    BfqQueue* const queue = pool_.make_queue();
    give_queue(context, queue == nullptr ? pool_.fallback() : *queue, group_for(rq.group));
    if (queue == nullptr) return context;
    note_created(*queue);
    look_for_twin(context);
    return context;
  }
  if (context.priority != rq.priority) {
    context.priority = rq.priority;
    take_priority(*context.queue, rq.priority);
  }
  if (context.queue->above->id != rq.group) [[unlikely]]
    change_group(context, group_for(rq.group));
  return context;
}

/// Section 13: who shares a queue, or is to, leaves it.
void Bfq::change_group(BfqContext& context, BfqGroup& group) {
  BfqQueue& queue = *context.queue;
  if (pool_.is_fallback(queue) || queue.above == &group) return;
  if (queue.owner != nullptr && queue.redirect == nullptr && queue.redirects_here == 0) {
    move(queue, group);
    return;
  }
  give_own_queue(context, group);
}

/// The queue is blank.
void Bfq::give_queue(BfqContext& context, BfqQueue& queue, BfqGroup& group) {
  context.queue = &queue;
  ++queue.contexts;
  take_priority(queue, context.priority);
  if (pool_.is_fallback(queue)) return;
  queue.owner = &context;
  queue.io_class = queue.wanted_class;
  queue.weight = queue.wanted_weight;
  queue.made_at = now_;
  if (queue.above != &group) bfq_join(queue, group);
}

void Bfq::take_priority(BfqQueue& queue, IoPriority priority) {
  const BfqPriority wanted = BfqPriority::of(priority);
  queue.wanted_class = wanted.io_class;
  queue.base_weight = wanted.weight();
  queue.wanted_weight = queue.base_weight * queue.raise;
}

void Bfq::note_outstanding(BfqContext& context, bool more) {
  context.outstanding += more ? 1U : ~0U;
  if (context.outstanding == (more ? 1U : 0U)) pool_.rest(context, !more, now_);
}

/// The request is at the device or queued no more.
void Bfq::forget_issuer(Request& rq) {
  auto* const context = static_cast<BfqContext*>(std::exchange(rq.elevator_issuer, nullptr));
  if (context != nullptr) note_outstanding(*context, false);
}

/// The context goes away from its queue.
void Bfq::leave(BfqContext& context) {
  BfqQueue& queue = *context.queue;
  context.queue = nullptr;
  --queue.contexts;
  if (queue.owner == &context) {
    hold_share(queue, false);
    queue.owner = nullptr;
  }
  lost_process(queue);
}

/// Nobody may be left who could send it something: it is not waited for and points nowhere.
void Bfq::lost_process(BfqQueue& queue) {
  if (queue.has_process()) return;
  forget_twin(queue);
  forget_waking(queue);
  if (BfqQueue* const into = std::exchange(queue.redirect, nullptr)) {
    --into->redirects_here;
    lost_process(*into);
  }
  for (BfqQueue*& member : burst_) {
    if (member == &queue) member = nullptr;
  }
  note_position(queue);
  if (&queue == serving_ && queue.empty()) expire(BfqReason::no_more_requests, std::nullopt);
  release_unneeded(queue);
}

void Bfq::release_unneeded(BfqQueue& queue) {
  if (queue.has_process() || queue.counted_used || queue.twins != 0 || queue.free.is_linked())
    return;
  if (queue.tree != nullptr) bfq_remove(queue);
  if (queue.above->last_made == &queue) queue.above->last_made = nullptr;
  if (queue.above != &groups_.root()) bfq_join(queue, groups_.root());
  pool_.release(queue);
}

// --- Positions --------------------------------------------------------------------------------

bool Bfq::looks_for_partners() const { return limits().rotational || !queueing_.value_or(true); }

/// Keeps the queue where its next request is.
void Bfq::note_position(BfqQueue& queue) {
  const bool stays = !queue.empty() && queue.sync && queue.has_process() &&
                     !pool_.is_fallback(queue) && queue.io_class != BfqPriority::kIdle &&
                     looks_for_partners();
  if (queue.by_position.is_linked()) {
    if (stays && queue.position == queue.next->start) return;
    positions_.erase(positions_.iterator_to(queue));
  }
  if (!stays) return;
  queue.position = queue.next->start;
  positions_.insert(queue);
}

/// The queue whose next request is nearest to `position`, null: none is close.
BfqQueue* Bfq::nearest(Sector position) {
  const auto behind = positions_.lower_bound(position, ByPosition{});
  BfqQueue* found = nullptr;
  if (behind != positions_.end() && is_close(behind->position, position)) found = &*behind;
  if (behind == positions_.begin()) return found;
  BfqQueue& before = *std::prev(behind);
  if (!is_close(before.position, position)) return found;
  const bool nearer = found == nullptr || position - before.position < found->position - position;
  return nearer ? &before : found;
}

// --- Merging ------------------------------------------------------------------------------------

/// Whether its issuer has had its time to find a partner.
bool Bfq::too_late_to_merge(const BfqQueue& queue) const {
  return queue.was_served && queue.first_io && *queue.first_io + kMergeTime < now_;
}

bool Bfq::may_cooperate(const BfqQueue& queue, const BfqQueue& with) const {
  return &queue != &with && with.sync && !pool_.is_fallback(with) && !too_late_to_merge(with) &&
         queue.above == with.above && queue.io_class == with.io_class &&
         queue.io_class != BfqPriority::kIdle && !queue.seeky() && !with.seeky();
}

/// Whose requests are near `position`, where I/O of `queue` goes; null: nobody's.
BfqQueue* Bfq::find_partner(BfqQueue& queue, Sector position) {
  if (!looks_for_partners() || busy_total() < 2 || too_late_to_merge(queue)) return nullptr;
  if (serving_ != nullptr && serving_->was_served && is_close(serving_->served_end, position) &&
      may_cooperate(queue, *serving_)) {
    return serving_;
  }
  BfqQueue* const found = nearest(position);
  return found != nullptr && may_cooperate(queue, *found) ? found : nullptr;
}

/// The contexts of `queue` are to go to `into`, or where those of that go. Null: they cannot.
BfqQueue* Bfq::redirect(BfqQueue& queue, BfqQueue& into, bool stable) {
  BfqQueue& end = end_of_redirects(into);
  if (&end == &queue || end.above != queue.above || !queue.has_process() || !end.has_process()) {
    return nullptr;
  }
  queue.redirect = &end;
  queue.redirect_stable = stable;
  ++end.redirects_here;
  ++counts_.redirected;
  return &end;
}

/// The queue that I/O of the context at `position` goes to: its own, or one it shares from now on.
BfqQueue& Bfq::follow(BfqContext& context, Sector position) {
  BfqQueue& queue = *context.queue;
  if (pool_.is_fallback(queue)) return queue;
  BfqQueue* into = queue.redirect;
  if (into != nullptr) into = &end_of_redirects(*into);
  if (into == nullptr) into = due_twin(queue);
  if (into == nullptr) {
    if (BfqQueue* const partner = find_partner(queue, position)) {
      into = redirect(queue, *partner, false);
    }
  }
  if (into == nullptr) return queue;
  change_queue(context, *into);
  return *into;
}

/// Everything of the context goes to `into` from now on; what is queued stays where it is.
void Bfq::change_queue(BfqContext& context, BfqQueue& into) {
  BfqQueue& from = *context.queue;
  save(from);
  save(into);
  if (from.redirect_stable) {
    context.stably_merged = into.stable = true;
    if (into.owner != nullptr) into.owner->stably_merged = true;
  }
  into.io_bound = into.io_bound || from.io_bound;
  hand_over_raise(from, into);
  if (into.waker == nullptr && from.waker != nullptr && from.waker != &into) {
    set_waker(into, from.waker);
  }
  from.owner = into.owner = nullptr;
  into.shared = true;
  if (from.above->last_made == &from) from.above->last_made = &into;
  ++into.contexts;
  ++counts_.joined;
  leave(context);
  context.queue = &into;
}

/// What the owner will have again when it no longer shares.
void Bfq::save(BfqQueue& queue) {
  if (queue.owner == nullptr) return;
  hold_share(queue, false);
  queue.owner->saved = queue;
  queue.owner->saved_raise = queue.raise;
}

void Bfq::hand_over_raise(BfqQueue& from, BfqQueue& into) {
  if (from.raise == 1) return;
  if (into.raise == 1) {
    into.interactive_start = from.interactive_start;
    into.service_raised = from.service_raised;
    raise(into, from.raise, from.raise_start, from.raise_time);
    note_use(into);
  }
  from.interactive_start.reset();
  from.raise = 1;
  from.wanted_weight = from.base_weight;
  note_use(from);
}

// --- Splitting ----------------------------------------------------------------------------------

/// The context goes its own way again: the last one keeps the queue.
void Bfq::split(BfqContext& context) {
  BfqQueue& shared = *context.queue;
  if (shared.contexts == 1 && shared.redirects_here == 0) {
    shared.shared = shared.split_due = shared.stable = false;
    shared.owner = &context;
    restore(shared);
    ++counts_.split;
    return;
  }
  give_own_queue(context, *shared.above);
}

/// Instead of the one it shared; if there is no memory, it goes on with that.
void Bfq::give_own_queue(BfqContext& context, BfqGroup& group) {
  BfqQueue* const own = pool_.make_queue();
  if (own == nullptr) return;
  save(*context.queue);
  leave(context);
  give_queue(context, *own, group);
  restore(*own);
  ++counts_.split;
}

/// The queue becomes what that of its owner was before it was shared.
void Bfq::restore(BfqQueue& queue) {
  BfqContext& context = *queue.owner;
  const bool raised = context.saved_raise > 1 && !context.saved.in_burst &&
                      now_ <= context.saved.raise_start + context.saved.raise_time;
  const std::optional<Instant> last_completion =
      std::max(queue.last_completion, context.saved.last_completion);
  static_cast<BfqHabits&>(queue) = context.saved;
  queue.last_completion = last_completion;
  queue.raise = raised && tunables_.low_latency ? context.saved_raise : 1;
  take_priority(queue, context.priority);
  queue.split_at = now_;
  if (queue.tree == nullptr) queue.weight = queue.wanted_weight;
  note_use(queue);
}

// --- Twins: made at nearly the same time, merged for good ---------------------------------------

void Bfq::look_for_twin(BfqContext& context) {
  BfqQueue& queue = *context.queue;
  if (!joins_twins_) return;
  BfqQueue*& last = queue.above->last_made;
  if (last == nullptr || last->made_at + kTwinMemory < now_ ||
      last->wanted_class != queue.wanted_class || last->base_weight != queue.base_weight) {
    last = &queue;
    return;
  }
  if (last->made_at + kTwinTime < now_) return;
  if (looks_for_partners()) {
    queue.twin = last;
    ++last->twins;
    return;
  }
  if (BfqQueue* const into = redirect(queue, *last, true)) change_queue(context, *into);
}

void Bfq::forget_twin(BfqQueue& queue) {
  BfqQueue* const twin = std::exchange(queue.twin, nullptr);
  if (twin == nullptr) return;
  --twin->twins;
  release_unneeded(*twin);
}

/// Where `queue` is to be merged for good, now that enough time has passed to see whether waiting
/// for it brings more.
BfqQueue* Bfq::due_twin(BfqQueue& queue) {
  if (queue.twin == nullptr || now_ < queue.made_at + kTwinDelay ||
      (queue.split_at && now_ < *queue.split_at + kTwinDelay)) {
    return nullptr;
  }
  BfqQueue* const into = boosts(queue) ? nullptr : redirect(queue, *queue.twin, true);
  forget_twin(queue);
  return into;
}

}  // namespace elevd::sched
