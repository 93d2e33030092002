// SPDX-License-Identifier: Apache-2.0
// BfqTree: one service tree of bfq (B-WF2Q+): who is to be served next, by virtual time.
//
// Owns:       nothing; links entities, which their scheduler keeps alive.
// Thread:     under the elevator lock.
// Time:       virtual only: services, in sectors, divided by weights.
// Invariants: (1) the active tree is in the order of finish, equal ones in the order they came;
//                 every node knows the smallest start of its subtree;
//             (2) the weight sum is that of what is active, idle or in service;
//             (3) virtual time never goes back.
// See also:   docs/spec/bfq.md section 3, bfq.hpp.
#pragma once

#include <boost/intrusive/rbtree_algorithms.hpp>
#include <cstdint>

namespace elevd::sched {

/// Virtual time that `sectors` of service take at `weight`.
[[nodiscard]] constexpr std::uint64_t bfq_delta(std::uint64_t sectors, std::uint64_t weight) {
  constexpr unsigned kShift = 22;
  return (sectors << kShift) / weight;
}

/// Timestamps wrap: the sign of the difference counts.
[[nodiscard]] constexpr bool bfq_later(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a - b) > 0;
}

/// Links and keys of an entity in a tree.
struct BfqNode {
  BfqNode* parent = nullptr;
  BfqNode* left = nullptr;
  BfqNode* right = nullptr;
  bool red = false;
  std::uint64_t start = 0;
  std::uint64_t finish = 0;
  std::uint64_t min_start = 0;  ///< smallest start in the subtree of this node
};

class BfqTree;
struct BfqGroup;

/// What is scheduled: a queue or a group.
struct BfqEntity : BfqNode {
  enum class Place : std::uint8_t { nowhere, active, idle, serving };
  Place place = Place::nowhere;
  bool is_group = false;
  BfqGroup* above = nullptr;         ///< the group it competes in
  BfqTree* tree = nullptr;           ///< the one it is in, null: nowhere
  std::uint32_t weight = 40;         ///< as the tree counts it
  std::uint32_t wanted_weight = 40;  ///< taken over when it is next activated or requeued
  std::uint32_t raise = 1;           ///< factor of its weight while it is raised
  std::uint64_t service = 0;         ///< sectors, in this slot
  std::uint64_t budget = 0;          ///< sectors
  std::uint32_t allocated = 0;       ///< requests inserted and not completed, of it or below it

  [[nodiscard]] std::uint64_t left_of_budget() const {
    return budget > service ? budget - service : 0;
  }
};

/// A red-black tree of Boost.Intrusive that keeps min_start right.
class BfqOrder {
 public:
  BfqOrder() { Algorithms::init_header(&header_); }
  BfqOrder(const BfqOrder&) = delete;
  BfqOrder& operator=(const BfqOrder&) = delete;

  void insert(BfqEntity& entity);
  void erase(BfqEntity& entity);
  [[nodiscard]] bool empty() const { return header_.parent == nullptr; }
  /// The earliest finish, null: empty.
  [[nodiscard]] BfqEntity* first() const;
  [[nodiscard]] BfqEntity* next(const BfqEntity& entity) const;
  /// REQUIRES: not empty.
  [[nodiscard]] std::uint64_t min_start() const { return header_.parent->min_start; }
  /// The earliest finish of those that start at or before `vtime`, null: there is none.
  [[nodiscard]] BfqEntity* first_eligible(std::uint64_t vtime) const;
  [[nodiscard]] unsigned depth() const;
  /// Ends the program unless order and min_start are right.
  void check() const;

 private:
  struct Traits {
    using node = BfqNode;
    using node_ptr = BfqNode*;
    using const_node_ptr = const BfqNode*;
    using color = bool;
    static node_ptr get_parent(const_node_ptr n) { return n->parent; }
    static void set_parent(node_ptr n, node_ptr to) { n->parent = to; }
    static node_ptr get_left(const_node_ptr n) { return n->left; }
    static void set_left(node_ptr n, node_ptr to) { n->left = to; }
    static node_ptr get_right(const_node_ptr n) { return n->right; }
    static void set_right(node_ptr n, node_ptr to) { n->right = to; }
    static color get_color(const_node_ptr n) { return n->red; }
    static void set_color(node_ptr n, color c) { n->red = c; }
    static color black() { return false; }
    static color red() { return true; }
  };
  using Algorithms = boost::intrusive::rbtree_algorithms<Traits>;

  void refresh_from(BfqNode* deepest);

  mutable BfqNode header_;
};

class BfqTree {
 public:
  /// Makes `entity` compete. `back_shift`: it comes back within the time it may recover, so its
  /// timestamps need not begin anew. REQUIRES: nowhere, or idle in this tree.
  void activate(BfqEntity& entity, bool back_shift);
  /// Whom to serve next, null: nobody is active. Virtual time jumps if nobody would be eligible.
  /// REQUIRES: nobody of this tree is in service.
  [[nodiscard]] BfqEntity* choose();
  /// What choose() would say, whoever is in service; virtual time stays.
  [[nodiscard]] const BfqEntity* peek() const;
  /// Takes an active entity into service.
  void take(BfqEntity& entity);
  /// It got `sectors` of service.
  void serve(BfqEntity& entity, std::uint64_t sectors);
  /// It was in service and competes again, with its new budget.
  void requeue(BfqEntity& entity);
  /// Its budget was changed while it is active.
  void reposition(BfqEntity& entity);
  /// It competes no more; it is remembered until virtual time has passed its finish.
  void deactivate(BfqEntity& entity);
  /// Its new weight counts from now on, although it is in service.
  void take_over_weight(BfqEntity& entity);
  /// It leaves, whatever it was.
  void remove(BfqEntity& entity);

  [[nodiscard]] bool has_active() const { return !active_.empty(); }
  [[nodiscard]] std::uint64_t vtime() const { return vtime_; }
  [[nodiscard]] std::uint64_t weight_sum() const { return weight_sum_; }
  [[nodiscard]] const BfqOrder& active() const { return active_; }
  [[nodiscard]] const BfqOrder& idle() const { return idle_; }
  /// Ends the program unless the invariants hold; `serving`: the one in service, null: none.
  void check(const BfqEntity* serving) const;

 private:
  void forget(BfqEntity& entity);

  BfqOrder active_;
  BfqOrder idle_;
  std::uint64_t vtime_ = 0;
  std::uint64_t weight_sum_ = 0;
};

}  // namespace elevd::sched
