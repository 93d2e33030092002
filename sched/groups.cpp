// SPDX-License-Identifier: Apache-2.0
#include "groups.hpp"

namespace elevd::sched {

Groups::Groups() {
  const LockGuard guard(lock_);
  entries_.emplace_back();
  ids_.emplace(entries_.back().path, kRootGroup);
}

GroupId Groups::id(std::string_view path) {
  if (!path.starts_with('/')) return kRootGroup;
  while (path.ends_with('/')) path.remove_suffix(1);
  const LockGuard guard(lock_);
  return find_or_add(path);
}

GroupId Groups::find_or_add(std::string_view path) {
  if (const auto known = ids_.find(path); known != ids_.end()) return known->second;
  // Those above first: the shortest beginning that is not known yet, and so on.
  GroupId above = kRootGroup;
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string_view part = path.substr(0, end);
    if (const auto known = ids_.find(part); known != ids_.end()) {
      above = known->second;
    } else {
      if (entries_.size() >= kMost) return kRootGroup;
      const auto made = static_cast<GroupId>(entries_.size());
      entries_.push_back({std::string(part), above});
      ids_.emplace(entries_.back().path, made);
      above = made;
    }
    if (end == std::string_view::npos) return above;
  }
}

GroupId Groups::above(GroupId id) const {
  const LockGuard guard(lock_);
  return entries_[id].above;
}

std::string Groups::path(GroupId id) const {
  const LockGuard guard(lock_);
  return id == kRootGroup ? "/" : entries_[id].path;
}

std::uint32_t GroupWeights::of(GroupId id) const {
  const auto own = own_.find(id);
  return own == own_.end() ? usual_ : own->second;
}

void GroupWeights::set(GroupId id, std::uint32_t weight) {
  if (weight == 0) {
    own_.erase(id);
  } else {
    own_[id] = weight;
  }
}

}  // namespace elevd::sched
