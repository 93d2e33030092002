// SPDX-License-Identifier: Apache-2.0
// Groups: the cgroups that submitters were seen in, as numbers; and GroupWeights, what weighs each
// of them on one disk.
//
// Owns:       paths and weights.
// Thread:     Groups any, by a lock of its own, which is the last in the order of locks;
//             GroupWeights under the elevator lock of its disk.
// Time:       none.
// Invariants: (1) a number is given to one path for ever, and the group above has a smaller one;
//             (2) the root is kRootGroup; when kMost paths are known, new ones count as the root.
// See also:   docs/spec/bfq.md section 13, bfq_group.hpp; lock.hpp.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "bio.hpp"
#include "lock.hpp"

namespace elevd::sched {

class Groups {
 public:
  static constexpr GroupId kMost = 65536;

  Groups();

  /// The number of the cgroup at `path`, "/a/b", made if it is new, with those above it. "/", ""
  /// and what is not below "/" are the root. Allocates.
  [[nodiscard]] GroupId id(std::string_view path);
  /// REQUIRES: not the root.
  [[nodiscard]] GroupId above(GroupId id) const;
  [[nodiscard]] std::string path(GroupId id) const;

 private:
  struct Entry {
    std::string path;  ///< empty: the root
    GroupId above = kRootGroup;
  };

  [[nodiscard]] GroupId find_or_add(std::string_view path) ELEVD_REQUIRES(lock_);

  mutable Lock lock_;
  std::deque<Entry> entries_ ELEVD_GUARDED_BY(lock_);
  std::unordered_map<std::string_view, GroupId> ids_ ELEVD_GUARDED_BY(lock_);
};

class GroupWeights {
 public:
  static constexpr std::uint32_t kLeast = 1;
  static constexpr std::uint32_t kMost = 1000;
  static constexpr std::uint32_t kDefault = 100;

  [[nodiscard]] std::uint32_t of(GroupId id) const;
  /// What groups have that were given none. kLeast to kMost, like every weight.
  [[nodiscard]] std::uint32_t usual() const { return usual_; }
  void set_usual(std::uint32_t weight) { usual_ = weight; }
  /// 0: the usual one again.
  void set(GroupId id, std::uint32_t weight);
  /// Those that were given one.
  [[nodiscard]] const std::map<GroupId, std::uint32_t>& own() const { return own_; }

 private:
  std::uint32_t usual_ = kDefault;
  std::map<GroupId, std::uint32_t> own_;
};

}  // namespace elevd::sched
