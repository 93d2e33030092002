// SPDX-License-Identifier: Apache-2.0
#include "bfq_tree.hpp"

#include <algorithm>

#include "assertion.hpp"

namespace elevd::sched {
namespace {

BfqEntity* bfq_entity_of(BfqNode* node) { return static_cast<BfqEntity*>(node); }

void refresh_min_start(BfqNode* node) {
  if (node == nullptr) return;
  node->min_start = node->start;
  for (const BfqNode* child : {node->left, node->right}) {
    if (child != nullptr && bfq_later(node->min_start, child->min_start)) {
      node->min_start = child->min_start;
    }
  }
}

unsigned bfq_depth_of(const BfqNode* node) {
  return node == nullptr ? 0 : 1 + std::max(bfq_depth_of(node->left), bfq_depth_of(node->right));
}

}  // namespace

// --- The augmented tree -----------------------------------------------------------------------

/// Every rotation puts what it moved on the way from the deepest node to the root, or beside it.
void BfqOrder::refresh_from(BfqNode* deepest) {
  for (BfqNode* node = deepest; node != &header_; node = node->parent) {
    refresh_min_start(node->left);
    refresh_min_start(node->right);
    refresh_min_start(node);
  }
}

void BfqOrder::insert(BfqEntity& entity) {
  entity.min_start = entity.start;
  Algorithms::insert_equal_upper_bound(&header_, &entity, [](const BfqNode* a, const BfqNode* b) {
    return bfq_later(b->finish, a->finish);
  });
  refresh_from(&entity);
}

void BfqOrder::erase(BfqEntity& entity) {
  BfqNode* deepest = entity.parent;
  if (entity.left != nullptr && entity.right != nullptr) {
    // Its successor takes its place.
    BfqNode* successor = entity.right;
    while (successor->left != nullptr) successor = successor->left;
    deepest = successor->parent == &entity ? successor : successor->parent;
  }
  Algorithms::erase(&header_, &entity);
  refresh_from(deepest);
}

BfqEntity* BfqOrder::first() const { return empty() ? nullptr : bfq_entity_of(header_.left); }

BfqEntity* BfqOrder::next(const BfqEntity& entity) const {
  BfqNode* const node = Algorithms::next_node(&const_cast<BfqEntity&>(entity));
  return node == &header_ ? nullptr : bfq_entity_of(node);
}

BfqEntity* BfqOrder::first_eligible(std::uint64_t vtime) const {
  BfqNode* candidate = nullptr;
  BfqNode* node = header_.parent;
  while (node != nullptr) {
    if (!bfq_later(node->start, vtime)) candidate = node;
    if (node->left != nullptr && !bfq_later(node->left->min_start, vtime)) {
      node = node->left;
      candidate = nullptr;  // there is an earlier one, maybe far to the right below
      continue;
    }
    if (candidate != nullptr) break;
    node = node->right;
  }
  return candidate == nullptr ? nullptr : bfq_entity_of(candidate);
}

unsigned BfqOrder::depth() const { return bfq_depth_of(header_.parent); }

void BfqOrder::check() const {
  const BfqEntity* before = nullptr;
  for (const BfqEntity* entity = first(); entity != nullptr; entity = next(*entity)) {
    ELEVD_ASSERT(before == nullptr || !bfq_later(before->finish, entity->finish));
    std::uint64_t smallest = entity->start;
    for (const BfqNode* child : {entity->left, entity->right}) {
      if (child != nullptr && bfq_later(smallest, child->min_start)) smallest = child->min_start;
    }
    ELEVD_ASSERT(entity->min_start == smallest);
    before = entity;
  }
}

// --- Virtual time (docs/spec/bfq.md section 3) --------------------------------------------------

void BfqTree::take_over_weight(BfqEntity& entity) {
  weight_sum_ = weight_sum_ - entity.weight + entity.wanted_weight;
  entity.weight = entity.wanted_weight;
}

void BfqTree::activate(BfqEntity& entity, bool back_shift) {
  const bool shifted = back_shift && bfq_later(vtime_, entity.finish);
  const std::uint64_t earliest = shifted ? entity.finish : vtime_;
  if (entity.place == BfqEntity::Place::idle) {
    ELEVD_ASSERT(entity.tree == this);
    idle_.erase(entity);
    entity.start = bfq_later(earliest, entity.finish) ? earliest : entity.finish;
  } else {
    ELEVD_ASSERT(entity.place == BfqEntity::Place::nowhere);
    entity.tree = this;
    entity.start = earliest;
    weight_sum_ += entity.weight;
  }
  take_over_weight(entity);
  entity.finish = entity.start + bfq_delta(entity.budget, entity.weight);
  if (shifted && bfq_later(vtime_, entity.finish)) {
    const std::uint64_t by = (vtime_ - entity.finish) / entity.raise;
    entity.start += by;
    entity.finish += by;
  }
  entity.place = BfqEntity::Place::active;
  active_.insert(entity);
}

BfqEntity* BfqTree::choose() {
  if (active_.empty()) return nullptr;
  if (bfq_later(active_.min_start(), vtime_)) vtime_ = active_.min_start();
  return active_.first_eligible(vtime_);
}

const BfqEntity* BfqTree::peek() const {
  if (active_.empty()) return nullptr;
  const std::uint64_t from = bfq_later(active_.min_start(), vtime_) ? active_.min_start() : vtime_;
  return active_.first_eligible(from);
}

void BfqTree::take(BfqEntity& entity) {
  ELEVD_ASSERT(entity.tree == this && entity.place == BfqEntity::Place::active);
  active_.erase(entity);
  entity.place = BfqEntity::Place::serving;
}

void BfqTree::serve(BfqEntity& entity, std::uint64_t sectors) {
  entity.service += sectors;
  vtime_ += bfq_delta(sectors, weight_sum_);
  // One a time, so that a service stays cheap.
  BfqEntity* const oldest = idle_.first();
  if (oldest != nullptr && !bfq_later(oldest->finish, vtime_)) remove(*oldest);
}

void BfqTree::requeue(BfqEntity& entity) {
  ELEVD_ASSERT(entity.tree == this && entity.place == BfqEntity::Place::serving);
  entity.start += bfq_delta(entity.service, entity.weight);
  take_over_weight(entity);
  entity.finish = entity.start + bfq_delta(entity.budget, entity.weight);
  entity.place = BfqEntity::Place::active;
  active_.insert(entity);
}

void BfqTree::reposition(BfqEntity& entity) {
  ELEVD_ASSERT(entity.tree == this && entity.place == BfqEntity::Place::active);
  active_.erase(entity);
  entity.finish = entity.start + bfq_delta(entity.budget, entity.weight);
  active_.insert(entity);
}

void BfqTree::deactivate(BfqEntity& entity) {
  ELEVD_ASSERT(entity.tree == this);
  if (entity.place == BfqEntity::Place::active) active_.erase(entity);
  entity.finish = entity.start + bfq_delta(entity.service, entity.weight);
  if (!bfq_later(entity.finish, vtime_)) {
    forget(entity);
    return;
  }
  entity.place = BfqEntity::Place::idle;
  idle_.insert(entity);
}

void BfqTree::forget(BfqEntity& entity) {
  weight_sum_ -= entity.weight;
  entity.place = BfqEntity::Place::nowhere;
  entity.tree = nullptr;
}

void BfqTree::remove(BfqEntity& entity) {
  ELEVD_ASSERT(entity.tree == this);
  if (entity.place == BfqEntity::Place::active) active_.erase(entity);
  if (entity.place == BfqEntity::Place::idle) idle_.erase(entity);
  forget(entity);
}

void BfqTree::check(const BfqEntity* serving) const {
  active_.check();
  idle_.check();
  std::uint64_t sum = serving != nullptr ? serving->weight : 0;
  for (const BfqOrder* order : {&active_, &idle_}) {
    const auto place = order == &active_ ? BfqEntity::Place::active : BfqEntity::Place::idle;
    for (const BfqEntity* e = order->first(); e != nullptr; e = order->next(*e)) {
      ELEVD_ASSERT(e->tree == this && e->place == place && !bfq_later(e->start, e->finish));
      sum += e->weight;
    }
  }
  ELEVD_ASSERT(sum == weight_sum_);
}

}  // namespace elevd::sched
