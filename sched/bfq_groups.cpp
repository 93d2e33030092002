// SPDX-License-Identifier: Apache-2.0
// What Bfq does with groups, and the shares of requests. docs/spec/bfq.md sections 13 and 14.
#include <algorithm>

#include "assertion.hpp"
#include "bfq.hpp"

namespace elevd::sched {
namespace {

/// Whose queue a bio is for, as BfqAdmission knows it: odd ones are issuers.
BfqAdmission::Key admission_key(std::uint64_t issuer) { return 2 * issuer + 1; }
BfqAdmission::Key admission_key(GroupId group, unsigned io_class, std::uint32_t weight) {
  return 2 * ((std::uint64_t{group} << 8U) + std::uint64_t{io_class} * 16 + weight / 10);
}

}  // namespace

/// Its issuer was seen in another group (section 13).
void Bfq::move(BfqQueue& queue, BfqGroup& group) {
  if (queue.above == &group) return;
  if (&queue == serving_) expire(BfqReason::preempted, std::nullopt);
  if (queue.tree != nullptr) bfq_remove(queue);
  if (queue.above->last_made == &queue) queue.above->last_made = nullptr;
  if (queue.counted_used) count_use(*queue.above, false);
  bfq_join(queue, group);
  if (queue.counted_used) count_use(group, true);
  if (queue.busy) bfq_activate(queue, queue.io_class, false);
}

void Bfq::count_use(BfqGroup& group, bool used) {
  if (used ? group.used_queues++ == 0 : --group.used_queues == 0)
    used ? ++groups_used_ : --groups_used_;
}

/// Taken over when the groups are next activated or requeued.
void Bfq::group_weights_changed() {
  groups_.for_each([this](BfqGroup& group) {
    if (group.above != nullptr) group.wanted_weight = group_weights()->of(group.id);
  });
}

/// Whether the slot of the queue in service ends because `queue` became busy. In different groups
/// the groups are compared, where they meet, and there has to be a chance that `queue` is next.
bool Bfq::preempts(const BfqQueue& queue, bool recovers) const {
  const auto [coming, serving] = bfq_rivals(queue, *serving_);
  const unsigned io_class = bfq_class_of(*coming);
  const unsigned served_class = bfq_class_of(*serving);
  const bool outranks =
      io_class < served_class || (io_class == served_class && coming->weight > serving->weight);
  const bool wants =
      (recovers && queue.raise >= serving_->raise) || outranks || !better_to_idle(*serving_);
  return wants && !bfq_would_return(*serving);
}

// --- Depth (section 14) -----------------------------------------------------------------------

std::uint32_t Bfq::default_async_depth(std::uint32_t nr_requests) const {
  return std::max(nr_requests * 3 / 4, 1U);
}

/// After every change of what `queue` holds.
void Bfq::note_allocated(BfqQueue& queue) {
  const std::uint32_t nr_requests = nr_requests_.load(std::memory_order_relaxed);
  // What several share is not noted: whose requests they are is not known before they come.
  const bool noted = !queue.sync || queue.owner != nullptr;
  hold_share(queue, noted && queue.allocated != 0 && bfq_over_limit(queue, nr_requests));
}

void Bfq::hold_share(BfqQueue& queue, bool over) {
  if (over == queue.counted_over) return;
  queue.counted_over = over;
  over_limit_.set(queue.sync
                      ? admission_key(queue.owner->issuer)
                      : admission_key(queue.above->id, queue.wanted_class, queue.base_weight),
                  over);
}

bool Bfq::holds_its_share(const Bio& bio) const {
  if (is_sync(bio.op, bio.flags)) {
    return over_limit_.has(admission_key(bio.issuer));
  }
  const BfqPriority priority = BfqPriority::of(bio.priority);
  return over_limit_.has(admission_key(bio.group, priority.io_class, priority.weight()));
}

DepthLimit Bfq::limit(const Bio& bio) const {
  if (over_limit_.any() && holds_its_share(bio)) [[unlikely]] {
    return {DepthClass::over_limit, 1};
  }
  if (bio.is_sync_read()) return {};
  const std::uint32_t async_depth = async_depth_.load(std::memory_order_relaxed);
  if (async_depth == Sbitmap::kUnlimited) return {};
  const bool sync = (bio.flags & kBioSync) != 0;
  // Fewer while an issuer is raised.
  const bool raised = raised_busy_.load(std::memory_order_relaxed) != 0;
  if (!sync) {
    return {DepthClass::async, std::max(raised ? async_depth / 4 : async_depth * 2 / 3, 1U)};
  }
  if (raised) return {DepthClass::sync_write, std::max(async_depth / 2, 1U)};
  if (async_depth >= nr_requests_.load(std::memory_order_relaxed)) return {};
  return {DepthClass::sync_write, std::max(async_depth, 1U)};
}

/// 1, so that the wake batch is 1, as in the kernel.
std::uint32_t Bfq::depth_updated(std::uint32_t nr_requests, std::uint32_t async_depth) {
  async_depth_.store(async_depth, std::memory_order_relaxed);
  nr_requests_.store(nr_requests, std::memory_order_relaxed);
  return 1;
}

// --- Invariants -------------------------------------------------------------------------------

void Bfq::check_groups() {
  std::uint32_t used = 0;
  groups_.for_each([&](BfqGroup& group) {
    const BfqEntity* serving = nullptr;  // what is in service of this group
    for (const BfqEntity* e = serving_; e != nullptr; e = e->above) {
      if (e->above == &group) serving = e;
    }
    for (BfqTree& classes : group.trees) {
      classes.check(serving != nullptr && serving->tree == &classes ? serving : nullptr);
    }
    if (group.used_queues != 0) ++used;
    // What was injected counts above a queue, too.
    const bool exact = counts_.injected == 0;
    if (serving != nullptr && exact) ELEVD_ASSERT(serving->service == serving_->service);
    if (group.above == nullptr) return;
    const BfqEntity* const next = group.next();
    ELEVD_ASSERT((group.place == BfqEntity::Place::serving) == (serving != nullptr));
    if (serving != nullptr) return;
    ELEVD_ASSERT((group.place == BfqEntity::Place::active) == (next != nullptr));
    if (next != nullptr)
      ELEVD_ASSERT(group.budget == next->budget && (group.service == 0 || !exact));
  });
  ELEVD_ASSERT(used == groups_used_);
  ELEVD_ASSERT(groups_.root().allocated == queued() + in_driver_);
}

}  // namespace elevd::sched
