// SPDX-License-Identifier: Apache-2.0
#include "bfq_group.hpp"

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
  weight = wanted_weight = kDefaultWeight;
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

void bfq_remove(BfqEntity& leaf) {
  ELEVD_ASSERT(leaf.place != BfqEntity::Place::serving);
  leaf.tree->remove(leaf);
  refresh(leaf.above, false);
}

}  // namespace elevd::sched
