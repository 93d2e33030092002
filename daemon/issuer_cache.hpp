// SPDX-License-Identifier: Apache-2.0
// IssuerCache: I/O priority and group of the thread that sent a request, asked for now and then.
//
// Owns:       fixed tables; nothing is allocated after it was made.
// Thread:     its worker's.
// Time:       an argument. What is known of a thread holds for one second.
// Invariants: (1) a thread id that was given to another thread may inherit for that second, no
//                 longer than it takes to ask again;
//             (2) the group is the root, or the last one known of that thread, until it was found
//                 by the control thread.
// See also:   docs/architecture.md "Concurrency rules", rule 15; docs/spec/fuse.md section 10.
#pragma once

#include <array>
#include <cstdint>

#include "group_finder.hpp"
#include "sched/bio.hpp"
#include "sched/units.hpp"

namespace elevd::daemon {

/// What a thread of this scheduling policy (sched(7)) and nice value (-20 to 19) that set no I/O
/// priority is given: docs/spec/bfq.md section 2. Only bfq looks at it; to the others it has no
/// class.
[[nodiscard]] sched::IoPriority processor_priority(int policy, int nice);

/// The priority of thread `id` as ioprio_get(2) tells it, by its processor_priority() when it has
/// none; best effort 4 when it is gone (ESRCH), or `id` is 0 (page write-back, or a caller of
/// another pid namespace).
[[nodiscard]] sched::IoPriority ask_io_priority(std::uint32_t id);

class IssuerCache {
 public:
  using Ask = sched::IoPriority (*)(std::uint32_t id);
  /// `finder`: null, all are in the root.
  explicit IssuerCache(Ask ask = ask_io_priority, GroupFinder* finder = nullptr)
      : ask_(ask), finder_(finder) {
    if (finder_ != nullptr) finder_->add(questions_);
  }
  ~IssuerCache() {
    if (finder_ != nullptr) finder_->remove(questions_);
  }
  IssuerCache(const IssuerCache&) = delete;
  IssuerCache& operator=(const IssuerCache&) = delete;

  [[nodiscard]] sched::IoPriority priority(std::uint32_t id, sched::Instant now) {
    return entry(id, now).priority;
  }

  /// The group of thread `id`, 0 (unknown) included.
  [[nodiscard]] sched::GroupId group(std::uint32_t id, sched::Instant now) {
    Entry& known = entry(id, now);
    if (!known.asked_group && finder_ != nullptr && id != 0) [[unlikely]] {
      known.asked_group = questions_.ask(id, id % kEntries);
      finder_->notify();
    }
    return questions_.answer(id, id % kEntries);
  }

 private:
  static constexpr std::size_t kEntries = GroupQuestions::kPlaces;
  static constexpr sched::Duration kLife{1'000'000'000};
  struct Entry {
    std::uint32_t id = 0;
    sched::IoPriority priority;
    sched::Instant until;
    bool asked_group = false;
  };

  [[nodiscard]] Entry& entry(std::uint32_t id, sched::Instant now) {
    Entry& known = entries_[id % kEntries];
    if (known.id != id || now >= known.until) [[unlikely]] {
      known = {id, ask_(id), now + kLife, false};
    }
    return known;
  }

  Ask ask_;
  GroupFinder* finder_;
  GroupQuestions questions_;
  std::array<Entry, kEntries> entries_;
};

}  // namespace elevd::daemon
