// SPDX-License-Identifier: Apache-2.0
// GroupFinder: finds out for the workers which cgroups threads are in.
//
// Owns:       an eventfd; links what the workers ask.
// Thread:     GroupQuestions: ask and answer by its worker, the rest by the control thread.
//             GroupFinder: notify by any worker, find by the control thread, add and remove by any.
// Time:       none. A worker does not wait for an answer.
// Invariants: (1) each question is answered once, later; a thread that is gone gets no answer;
//             (2) an answer says whose it is, so a place that was given to another thread
//                 meanwhile has none.
// See also:   issuer_cache.hpp, docs/architecture.md "Concurrency rules", rule 15;
//             docs/spec/bfq.md section 13.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/descriptor.hpp"
#include "sched/groups.hpp"

namespace elevd::daemon {

/// The cgroup that /proc/TID/cgroup tells: the one of blkio if there is one, else that of version
/// 2; "/" if there is neither.
[[nodiscard]] std::string_view group_path(std::string_view lines);

/// What /proc/ID/cgroup holds; none: the thread is gone.
[[nodiscard]] std::optional<std::string> read_group_lines(std::uint32_t id);

/// What one worker asks, and the answers.
class GroupQuestions {
 public:
  static constexpr std::size_t kPlaces = 256;

  /// False: too many are open, ask later.
  [[nodiscard]] bool ask(std::uint32_t id, std::size_t place);
  /// The group of thread `id`; the root until it is known.
  [[nodiscard]] sched::GroupId answer(std::uint32_t id, std::size_t place) const {
    const std::uint64_t packed = answers_[place].load(std::memory_order_relaxed);
    return packed >> 32U == id ? static_cast<sched::GroupId>(packed) : sched::kRootGroup;
  }

  /// Takes each open question: `find` gives the group of a thread, none: no answer.
  void answer_all(const std::function<std::optional<sched::GroupId>(std::uint32_t id)>& find);

 private:
  static constexpr std::size_t kOpen = 64;
  struct Question {
    std::uint32_t id = 0;
    std::uint32_t place = 0;
  };

  std::array<Question, kOpen> open_;
  std::atomic<std::uint32_t> asked_{0};
  std::atomic<std::uint32_t> answered_{0};
  std::array<std::atomic<std::uint64_t>, kPlaces> answers_{};  ///< thread id << 32 | group
};

class GroupFinder {
 public:
  using Read = std::optional<std::string> (*)(std::uint32_t id);
  explicit GroupFinder(sched::Groups& groups, Read read = read_group_lines);

  void add(GroupQuestions& questions);
  void remove(GroupQuestions& questions);

  /// Somebody asked: descriptor() becomes readable, unless it is.
  void notify();
  [[nodiscard]] int descriptor() const { return asked_event_.get(); }
  /// Answers what was asked.
  void find();

 private:
  sched::Groups& groups_;
  Read read_;
  Descriptor asked_event_;
  std::atomic<bool> notified_{false};
  std::mutex mutex_;
  std::vector<GroupQuestions*> questions_;
};

}  // namespace elevd::daemon
