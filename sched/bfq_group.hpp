// SPDX-License-Identifier: Apache-2.0
// BfqGroup: the queues and groups of one cgroup that compete with each other, and the group as what
// competes in its parent; the steps of a slot that concern a queue with all groups above it; and
// BfqGroups, the groups of a disk.
//
// Owns:       a group its service trees and the queues of those that wait for nobody; BfqGroups the
//             groups.
// Thread:     under the elevator lock.
// Time:       an argument, for the idle class only.
// Invariants: (1) a group competes in its parent exactly if something competes in it, in the tree
// of
//                 the best effort class, with the budget of what it would serve next;
//             (2) while a queue is in service so are the groups above it, and none of them is in a
//                 tree; nothing else is in service;
//             (3) the root has nothing above it and is in no tree;
//             (4) a group with members is not deleted.
// See also:   docs/spec/bfq.md sections 3 and 13, bfq_tree.hpp, bfq_queue.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bfq_queue.hpp"
#include "bfq_tree.hpp"
#include "bio.hpp"
#include "elevator.hpp"
#include "units.hpp"

namespace elevd::sched {

struct BfqGroup : BfqEntity {
  static constexpr unsigned kClasses = 3;  ///< as in BfqPriority
  static constexpr unsigned kAsync = 17;   ///< eight levels of two classes, one of the idle class

  std::array<BfqTree, kClasses> trees;
  Instant idle_class_looked_at;
  GroupId id = kRootGroup;
  std::uint32_t members = 0;      ///< queues of issuers and groups whose `above` it is
  BfqQueue* last_made = nullptr;  ///< of issuers, null: it is gone
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

class BfqGroups {
 public:
  BfqGroups();
  ~BfqGroups();  ///< asserts: nothing is queued or at the device
  BfqGroups(const BfqGroups&) = delete;
  BfqGroups& operator=(const BfqGroups&) = delete;

  [[nodiscard]] BfqGroup& root() { return *by_id_[kRootGroup]; }
  /// Null: there is none yet.
  [[nodiscard]] BfqGroup* find(GroupId id) {
    return id < by_id_.size() ? by_id_[id].get() : nullptr;
  }
  /// The group of that number, made if need be with those above, which `names` knows; the root if
  /// there is no memory or `names` is null.
  [[nodiscard]] BfqGroup& get(GroupId id, const Groups* names, const GroupWeights* weights);
  /// Those there are, the root first.
  template <class Use>
  void for_each(Use&& use) {
    for (const auto& group : by_id_) {
      if (group != nullptr) use(*group);
    }
  }
  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  static constexpr std::uint32_t kFirstSweep = 64;

  void sweep();

  std::vector<std::unique_ptr<BfqGroup>> by_id_;  ///< null: there is none
  std::uint32_t count_ = 1;
  std::uint32_t sweep_at_ =
      kFirstSweep;  ///< groups without members are deleted when there are so many
};

/// Makes `leaf` compete in its group and that in those above, as BfqTree::activate says.
void bfq_activate(BfqEntity& leaf, unsigned io_class, bool back_shift);
/// The budget of `leaf` was changed while it is active.
void bfq_reposition(BfqEntity& leaf);
/// `leaf`, in service or active, and every group above it get `sectors` of service.
void bfq_serve(BfqEntity& leaf, std::uint64_t sectors);
/// The slot of `leaf` ends: it competes again with its new budget, in the tree of `io_class`, ...
void bfq_requeue(BfqEntity& leaf, unsigned io_class);
/// ... or no more.
void bfq_deactivate(BfqEntity& leaf);
/// `leaf`, which is active and not in service, got service nevertheless; `stops`: it has no request
/// left.
void bfq_served_out_of_turn(BfqEntity& leaf, bool stops);
/// `leaf`, which is not in service, leaves its group at once and is not remembered.
void bfq_remove(BfqEntity& leaf);
/// Puts `queue` of an issuer, which is in no tree, into `group`.
void bfq_join(BfqQueue& queue, BfqGroup& group);

/// Adds to what `leaf` and the groups above it hold.
void bfq_count_allocated(BfqEntity& leaf, int change);
/// Whether `leaf` or a group above it holds its share of `nr_requests` requests, or more (section
/// 14, "Over-limit"). Nobody does who does not compete.
[[nodiscard]] bool bfq_over_limit(const BfqQueue& leaf, std::uint32_t nr_requests);

/// Two entities of one group: what a pair of queues has to be compared by, one in service.
struct BfqRivals {
  const BfqEntity* coming;
  const BfqEntity* serving;
};
[[nodiscard]] BfqRivals bfq_rivals(const BfqQueue& coming, const BfqQueue& serving);
[[nodiscard]] unsigned bfq_class_of(const BfqEntity& entity);
/// Whether `entity`, in service, would be the choice of its group again if the slot ended now and
/// the queue that is served did not compete any more.
[[nodiscard]] bool bfq_would_return(const BfqEntity& entity);

}  // namespace elevd::sched
