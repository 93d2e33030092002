// SPDX-License-Identifier: Apache-2.0
// Stats: the counters behind `stat` and `inflight`, one set per worker.
//
// Owns:       plain counters.
// Thread:     each counter has one writer, its worker; readers add them up at any time.
// Invariants: counters only grow; differences of sums are what is in flight.
// See also:   docs/spec/sysfs.md section 7, docs/spec/plug-and-merge.md section 9.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "bio.hpp"
#include "units.hpp"

namespace elevd::sched {

/// A counter with one writer: an increment is a load and a store, no locked instruction.
class Counter {
 public:
  void add(std::uint64_t n) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Groups of the stat file.
enum class StatGroup : std::uint8_t { read, write, discard, flush };
inline constexpr unsigned kStatGroups = 4;

/// WRITE_ZEROES counts as a write, and so does an empty flush; the FLUSH command has its own group.
[[nodiscard]] constexpr StatGroup stat_group(Op op) {
  if (op == Op::read) return StatGroup::read;
  return op == Op::discard ? StatGroup::discard : StatGroup::write;
}

/// Where a bio or request was merged.
enum class MergePoint : std::uint8_t { plug, software_queue, bio_merge, insert, request };
inline constexpr unsigned kMergePoints = 5;

struct GroupCounters {
  Counter ios;
  Counter merges;
  Counter sectors;
  Counter ticks_ns;
};

/// The counters of one (worker, disk).
struct WorkerCounters {
  std::array<GroupCounters, kStatGroups> groups;
  std::array<Counter, 2> allocated;  ///< requests that count in stat: reads, writes
  std::array<Counter, 2> freed;
  std::array<Counter, 2> issued;  ///< requests given to the driver: reads, writes
  std::array<Counter, 2> completed;
  std::array<Counter, kMergePoints> merge_attempts;
  std::array<Counter, kMergePoints> merge_hits;
  Counter merge_skips;  ///< lookups left out because the elevator lock was contended
  Counter entered;      ///< bios that passed the gate
  Counter left;         ///< bios answered
};

/// A sum over workers, as a reader sees it.
struct Stats {
  struct Group {
    std::uint64_t ios = 0, merges = 0, sectors = 0, ticks_ms = 0;
  };
  std::array<Group, kStatGroups> groups;
  std::uint64_t in_flight = 0;                   ///< allocated, not completed
  std::array<std::uint64_t, 2> at_driver{0, 0};  ///< reads, writes
  std::uint64_t io_ticks_ms = 0;                 ///< time with at least one in flight
  std::array<std::uint64_t, kMergePoints> merge_attempts{};
  std::array<std::uint64_t, kMergePoints> merge_hits{};
  std::uint64_t merge_skips = 0;
};

}  // namespace elevd::sched
