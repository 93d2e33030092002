// SPDX-License-Identifier: Apache-2.0
// BfqGroup: the queues and groups of one cgroup that compete with each other, and the group as what
// competes in its parent; and the steps of a slot that concern a queue with all groups above it.
//
// Owns:       its service trees and the queues of those that wait for nobody; links queues and
//             groups that their scheduler keeps alive.
// Thread:     under the elevator lock.
// Time:       an argument, for the idle class only.
// Invariants: (1) a group competes in its parent exactly if something competes in it, in the tree
// of
//                 the best effort class, with the budget of what it would serve next;
//             (2) while a queue is in service so are the groups above it, and none of them is in a
//                 tree; nothing else is in service;
//             (3) the root has nothing above it and is in no tree.
// See also:   docs/spec/bfq.md sections 3 and 13, bfq_tree.hpp, bfq_queue.hpp.
#pragma once

#include <array>
#include <cstdint>

#include "bfq_queue.hpp"
#include "bfq_tree.hpp"
#include "bio.hpp"
#include "units.hpp"

namespace elevd::sched {

struct BfqGroup : BfqEntity {
  static constexpr unsigned kClasses = 3;  ///< as in BfqPriority
  static constexpr unsigned kAsync = 17;   ///< eight levels of two classes, one of the idle class
  static constexpr std::uint32_t kDefaultWeight = 100;

  std::array<BfqTree, kClasses> trees;
  Instant idle_class_looked_at;
  std::uint32_t used_queues = 0;  ///< busy, or with requests at the device

  BfqGroup();
  /// The root does not compete: everything else has a group above it.
  explicit BfqGroup(BfqGroup* upper);

  /// The queue of what waits for nobody, at that priority.
  [[nodiscard]] BfqQueue& async(BfqPriority priority);
  /// What it would serve next, null: nothing competes here. Classes are strict.
  [[nodiscard]] const BfqEntity* next() const;
  /// The same, taken into service; the idle class is first when it was not looked at for 200 ms.
  [[nodiscard]] BfqEntity* take_next(Instant now);

  template <class Use>
  void for_each_async(Use&& use) {
    for (BfqQueue& queue : async_) use(queue);
  }

 private:
  std::array<BfqQueue, kAsync> async_;
};

/// Makes `leaf` compete in its group and that in those above, as BfqTree::activate says.
void bfq_activate(BfqEntity& leaf, unsigned io_class, bool back_shift);
/// The budget of `leaf` was changed while it is active.
void bfq_reposition(BfqEntity& leaf);
/// `leaf`, in service, and every group above it get `sectors` of service.
void bfq_serve(BfqEntity& leaf, std::uint64_t sectors);
/// The slot of `leaf` ends: it competes again with its new budget, in the tree of `io_class`, ...
void bfq_requeue(BfqEntity& leaf, unsigned io_class);
/// ... or no more.
void bfq_deactivate(BfqEntity& leaf);
/// `leaf`, which is not in service, leaves its group at once and is not remembered.
void bfq_remove(BfqEntity& leaf);

}  // namespace elevd::sched
