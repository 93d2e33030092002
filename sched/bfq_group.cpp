// SPDX-License-Identifier: Apache-2.0
#include "bfq_group.hpp"

#include <algorithm>
#include <new>

#include "assertion.hpp"

namespace elevd::sched {
namespace {

constexpr Duration kIdleClassTimeout{200'000'000};

BfqTree& tree_of_groups(const BfqGroup& group) {
  return group.above->trees[BfqPriority::kBestEffort];
}

/// Something in `group` changed. The groups in service are seen to when the slot ends.
void refresh(BfqGroup* group, bool back_shift) {
  for (; group->above != nullptr && group->place != BfqEntity::Place::serving;
       group = group->above) {
    const bool active = group->place == BfqEntity::Place::active;
    const BfqEntity* const next = group->next();
    if (next == nullptr) {
      if (!active) return;
      group->tree->deactivate(*group);
      group->service = 0;
    } else if (!active) {
      group->budget = next->budget;
      tree_of_groups(*group).activate(*group, back_shift);
    } else if (group->budget != next->budget) {
      group->budget = next->budget;
      group->tree->reposition(*group);
    } else {
      return;
    }
  }
}

/// The groups above a queue whose slot has ended compete again if something in them does.
void end_slot(BfqGroup* group) {
  for (; group->above != nullptr; group = group->above) {
    if (const BfqEntity* const next = group->next()) {
      group->budget = next->budget;
      group->tree->requeue(*group);
    } else {
      group->tree->deactivate(*group);
    }
    group->service = 0;
  }
}

}  // namespace

BfqGroup::BfqGroup() : BfqGroup(nullptr) {}

BfqGroup::BfqGroup(BfqGroup* upper) {
  is_group = true;
  above = upper;
  weight = wanted_weight = GroupWeights::kDefault;
  for (unsigned n = 0; n < kAsync; ++n) {
    BfqQueue& queue = async_[n];
    queue.above = this;
    queue.sync = false;
    const auto io_class = static_cast<std::uint8_t>(n / BfqPriority::kLevels);
    const auto level = static_cast<std::uint8_t>(
        io_class == BfqPriority::kIdle ? BfqPriority::kLevels - 1 : n % BfqPriority::kLevels);
    queue.io_class = queue.wanted_class = io_class;
    queue.base_weight = queue.weight = queue.wanted_weight = BfqPriority{io_class, level}.weight();
  }
}

BfqQueue& BfqGroup::async(BfqPriority priority) {
  const unsigned level = priority.io_class == BfqPriority::kIdle ? 0 : priority.level;
  return async_[priority.io_class * BfqPriority::kLevels + level];
}

const BfqEntity* BfqGroup::next() const {
  for (const BfqTree& classes : trees) {
    if (const BfqEntity* const entity = classes.peek()) return entity;
  }
  return nullptr;
}

BfqEntity* BfqGroup::take_next(Instant now) {
  BfqEntity* chosen = nullptr;
  if (idle_class_looked_at + kIdleClassTimeout < now) {
    idle_class_looked_at = now;
    chosen = trees[BfqPriority::kIdle].choose();
  }
  for (unsigned c = 0; c < kClasses && chosen == nullptr; ++c) chosen = trees[c].choose();
  if (chosen != nullptr) chosen->tree->take(*chosen);
  return chosen;
}

void bfq_activate(BfqEntity& leaf, unsigned io_class, bool back_shift) {
  leaf.above->trees[io_class].activate(leaf, back_shift);
  refresh(leaf.above, back_shift);
}

void bfq_reposition(BfqEntity& leaf) {
  leaf.tree->reposition(leaf);
  refresh(leaf.above, false);
}

void bfq_serve(BfqEntity& leaf, std::uint64_t sectors) {
  for (BfqEntity* entity = &leaf; entity->tree != nullptr; entity = entity->above) {
    entity->tree->serve(*entity, sectors);
  }
}

void bfq_requeue(BfqEntity& leaf, unsigned io_class) {
  BfqTree& tree = leaf.above->trees[io_class];
  if (leaf.tree == &tree) {
    tree.requeue(leaf);
  } else {
    tree.activate(leaf, false);
  }
  end_slot(leaf.above);
}

void bfq_deactivate(BfqEntity& leaf) {
  leaf.tree->deactivate(leaf);
  end_slot(leaf.above);
}

void bfq_served_out_of_turn(BfqEntity& leaf, bool stops) {
  ELEVD_ASSERT(leaf.place == BfqEntity::Place::active);
  if (stops) {
    leaf.tree->deactivate(leaf);
    refresh(leaf.above, false);
  }
  // Virtual time went on at every level, so that another one may be next in each.
  for (BfqGroup* group = leaf.above;
       group->above != nullptr && group->place != BfqEntity::Place::serving; group = group->above) {
    const BfqEntity* const next = group->next();
    if (next == nullptr || group->budget == next->budget) continue;
    group->budget = next->budget;
    group->tree->reposition(*group);
  }
}

void bfq_remove(BfqEntity& leaf) {
  ELEVD_ASSERT(leaf.place != BfqEntity::Place::serving);
  leaf.tree->remove(leaf);
  refresh(leaf.above, false);
}

void bfq_join(BfqQueue& queue, BfqGroup& group) {
  ELEVD_ASSERT(queue.tree == nullptr);
  const auto allocated = static_cast<int>(queue.allocated);
  if (queue.above != nullptr) {
    bfq_count_allocated(queue, -allocated);
    --queue.above->members;
  }
  queue.above = &group;
  ++group.members;
  bfq_count_allocated(queue, allocated);
}

// --- Shares of requests (docs/spec/bfq.md section 14) -------------------------------------------

void bfq_count_allocated(BfqEntity& leaf, int change) {
  for (BfqEntity* entity = &leaf; entity != nullptr; entity = entity->above) {
    entity->allocated += static_cast<std::uint32_t>(change);
  }
}

namespace {

/// What a queue's weight is a part of: lower classes count for little beside better ones.
std::uint64_t weight_sum_for(const BfqQueue& queue) {
  std::uint64_t sum = 0;
  for (unsigned c = 0; c <= queue.io_class; ++c) sum = 8 * sum + queue.above->trees[c].weight_sum();
  return sum;
}

/// The share of `group`; none: it or one above holds that already.
std::optional<std::uint64_t> share_of(const BfqGroup& group, std::uint64_t nr_requests) {
  if (group.above == nullptr) return nr_requests;
  const auto above = share_of(*group.above, nr_requests);
  if (!above) return std::nullopt;
  const std::uint64_t sum = group.tree->weight_sum();
  const std::uint64_t share = (*above * group.weight + sum / 2) / sum;
  if (group.allocated >= share) return std::nullopt;
  return share;
}

}  // namespace

bool bfq_over_limit(const BfqQueue& leaf, std::uint32_t nr_requests) {
  for (const BfqEntity* entity = &leaf; entity->above != nullptr; entity = entity->above) {
    if (entity->tree == nullptr) return false;
  }
  const auto above = share_of(*leaf.above, nr_requests);
  if (!above) return true;
  const std::uint64_t sum = weight_sum_for(leaf);
  return leaf.allocated >= (*above * leaf.weight + sum / 2) / sum;
}

// --- Preemption (section 6) ---------------------------------------------------------------------

BfqRivals bfq_rivals(const BfqQueue& coming, const BfqQueue& serving) {
  for (const BfqEntity* mine = &coming; mine->above != nullptr; mine = mine->above) {
    for (const BfqEntity* other = &serving; other->above != nullptr; other = other->above) {
      if (mine->above == other->above) return {mine, other};
    }
  }
  ELEVD_ASSERT(false);
  return {};
}

unsigned bfq_class_of(const BfqEntity& entity) {
  return entity.is_group ? unsigned{BfqPriority::kBestEffort}
                         : unsigned{static_cast<const BfqQueue&>(entity).io_class};
}

bool bfq_would_return(const BfqEntity& entity) {
  if (!entity.is_group) return false;
  const auto& group = static_cast<const BfqGroup&>(entity);
  const BfqEntity* const next = group.next();
  if (next == nullptr || group.above->trees[BfqPriority::kRealTime].has_active()) return false;
  const BfqEntity* const other = group.tree->peek();
  if (other == nullptr) return true;
  const std::uint64_t start = group.start + bfq_delta(group.service, group.weight);
  const std::uint64_t finish = start + bfq_delta(next->budget, group.weight);
  const std::uint64_t vtime = group.tree->vtime();
  const bool eligible = !bfq_later(start, vtime);
  const bool other_is = !bfq_later(other->start, vtime);
  if (eligible != other_is) return eligible;
  return eligible ? bfq_later(other->finish, finish) : bfq_later(other->start, start);
}

// --- All groups of a disk -----------------------------------------------------------------------

BfqGroups::BfqGroups() { by_id_.push_back(std::make_unique<BfqGroup>()); }

BfqGroups::~BfqGroups() {
  for_each([](const BfqGroup& group) { ELEVD_ASSERT(group.allocated == 0); });
}

BfqGroup& BfqGroups::get(GroupId id, const Groups* names, const GroupWeights* weights) {
  if (BfqGroup* const known = find(id)) return *known;
  if (names == nullptr) return root();
  BfqGroup& above = get(names->above(id), names, weights);
  ++above.members;  // so it stays, whatever is deleted
  if (count_ >= sweep_at_) sweep();
  try {
    if (id >= by_id_.size()) by_id_.resize(id + 1);
    by_id_[id] = std::make_unique<BfqGroup>(&above);
  } catch (const std::bad_alloc&) {
    --above.members;
    return root();
  }
  BfqGroup& made = *by_id_[id];
  made.id = id;
  if (weights != nullptr) made.weight = made.wanted_weight = weights->of(id);
  ++count_;
  return made;
}

/// Deletes the groups that nobody is in any more, those below first.
void BfqGroups::sweep() {
  for (std::size_t id = by_id_.size(); --id > kRootGroup;) {
    BfqGroup* const group = by_id_[id].get();
    if (group == nullptr || group->members != 0 || group->allocated != 0 ||
        group->used_queues != 0) {
      continue;
    }
    if (group->tree != nullptr) group->tree->remove(*group);
    --group->above->members;
    by_id_[id].reset();
    --count_;
  }
  sweep_at_ = 2 * count_ + kFirstSweep;
}

}  // namespace elevd::sched
