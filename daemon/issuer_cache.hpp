// SPDX-License-Identifier: Apache-2.0
// IssuerCache: the I/O priority of the thread that sent a request, asked of the kernel now and
// then.
//
// Owns:       a fixed table; nothing is allocated after it was made.
// Thread:     its worker's.
// Time:       an argument. What is known of a thread holds for one second.
// Invariants: a thread id that was given to another thread may inherit for that second, no longer.
// See also:   docs/architecture.md "Concurrency rules", rule 15; docs/spec/fuse.md section 10.
#pragma once

#include <array>
#include <cstdint>

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
  explicit IssuerCache(Ask ask = ask_io_priority) : ask_(ask) {}

  [[nodiscard]] sched::IoPriority priority(std::uint32_t id, sched::Instant now) {
    Entry& entry = entries_[id % kEntries];
    if (entry.id != id || now >= entry.until) [[unlikely]] {
      entry = {id, ask_(id), now + kLife};
    }
    return entry.priority;
  }

 private:
  static constexpr std::size_t kEntries = 256;
  static constexpr sched::Duration kLife{1'000'000'000};
  struct Entry {
    std::uint32_t id = 0;
    sched::IoPriority priority;
    sched::Instant until;
  };

  Ask ask_;
  std::array<Entry, kEntries> entries_;
};

}  // namespace elevd::daemon
