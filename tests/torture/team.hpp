// SPDX-License-Identifier: Apache-2.0
// Team: what the threads of the torture test share: disks, moods, the counts of a round.
//
// The test goes in rounds. In a round every worker submits a number of bios; it ends when all of
// them are answered. Then nothing may be inside a disk, no tag busy, no bio parked. A lost wake-up
// or a lost run stops a round for ever, because nobody comes by who would repair it: rounds are
// many and mostly small.
//
// Thread:     as each member says. Counts of the test use kTestOrder, so that they order nothing
//             for ThreadSanitizer that the code under test does not order itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "daemon/freezer.hpp"
#include "options.hpp"
#include "random.hpp"
#include "sched/request_queue.hpp"
#include "torture_elevator.hpp"

namespace elevd::sched {

/// Sees what a queue keeps to itself.
class QueueTest {
 public:
  /// Whether a bio submitted by `worker` now would wait at the gate. By that worker.
  static bool gate_holds(RequestQueue& queue, const Worker& worker) {
    const QueueContext& context = queue.context(worker);
    return context.gate_closed || !context.gated.empty();
  }
  static std::uint32_t runs(const RequestQueue& queue) { return queue.runs_.load(); }
  static bool restart(const RequestQueue& queue) { return queue.restart_.load(); }
  static bool residual(const RequestQueue& queue) { return queue.residual_mark_.load(); }
  static std::uint64_t software_pending(const RequestQueue& queue) {
    return queue.software_pending_.load();
  }
};

}  // namespace elevd::sched

namespace elevd::torture {

#if defined(ELEVD_TSAN)
inline constexpr std::memory_order kTestOrder = std::memory_order_relaxed;
#else
inline constexpr std::memory_order kTestOrder = std::memory_order_seq_cst;
#endif

inline constexpr std::uint64_t kBlockSectors = 8;  ///< logical block of every disk
inline constexpr unsigned kDiskBlocks = 4096;

/// How a round goes: shares are percentages.
struct Mood {
  unsigned bios = 1;          ///< of each worker, at most
  unsigned burst = 1;         ///< most bios of one turn
  unsigned disks = 1;         ///< the first so many are used
  unsigned inline_done = 0;   ///< completed inside issue()
  unsigned delayed_done = 0;  ///< completed some turns later by the same worker; the rest: device
  unsigned elsewhere = 0;     ///< of what the device completes, reaped by any worker
  unsigned refusals = 0;      ///< of budget() and issue()
  unsigned errors = 0;
  unsigned in_ring = 1;  ///< requests in flight per worker
  unsigned sequential = 0;
  unsigned flushes = 0;        ///< flushes, FUA and PREFLUSH writes
  unsigned odd = 0;            ///< discards, write zeroes, misaligned, no-wait and at-head bios
  unsigned interruptions = 0;  ///< one in so many hooks, see interruption.hpp
  bool one_class = false;      ///< reads only
  bool together = false;       ///< workers begin the round at the same time
};

struct Disk {
  std::unique_ptr<sched::RequestQueue> queue;
  std::unique_ptr<daemon::Freezer> freezer;
  unsigned index = 0;
  /// Read by bios inside, changed with the queue frozen.
  sched::Elevator* elevator = nullptr;
  sched::Limits limits;
  std::atomic<bool> frozen{false};
  /// Held while something is changed, and while the maps are looked at from outside.
  std::mutex change;
  std::atomic<std::uint64_t> submitted{0};
  std::atomic<std::uint64_t> answered{0};
  std::unique_ptr<std::atomic<bool>[]> tags_at_device;  ///< by hardware tag
  std::atomic<int> waiters{0};  ///< bios that surely wait for a tag, see FakeWorker::note_waiting
};

class Device;
class FakeWorker;

struct Team {
  explicit Team(const Options& the_options);
  ~Team();

  const Options options;
  bool use_no_wait = false;     ///< no-wait bios pass a closed gate to be refused
  bool steady_iostats = false;  ///< iostats stays on, so that sums must match
  std::vector<std::unique_ptr<Disk>> disks;
  std::vector<sched::RequestQueue*> queues;
  std::vector<std::unique_ptr<FakeWorker>> workers;
  std::vector<sched::Worker*> peers;
  std::vector<daemon::WorkerPort*> ports;
  std::vector<Mood> moods;
  std::unique_ptr<Device> device;

  std::atomic<std::uint32_t> round{0};
  std::atomic<unsigned> mood{0};
  std::atomic<unsigned> arrived{0};           ///< workers that have seen this round
  std::atomic<std::int64_t> unanswered{0};    ///< bios of this round
  std::atomic<std::uint32_t> rounds_done{0};  ///< waited for by the main thread
  std::atomic<std::uint64_t> park_sequence{1};

  // Counts, for checks at the end and the last line.
  std::atomic<std::uint64_t> answered{0};         ///< bios
  std::atomic<std::uint64_t> parks{0};            ///< new bios that were seen to park
  std::atomic<std::uint64_t> class_changes{0};    ///< waiting bios that parked in another class
  std::atomic<std::uint64_t> requests{0};         ///< tags taken
  std::atomic<std::uint64_t> merged_bios{0};      ///< into requests
  std::atomic<std::uint64_t> merged_requests{0};  ///< into others
  std::atomic<std::uint64_t> changes{0};          ///< made with a frozen queue
  std::atomic<std::uint64_t> cancelled{0};        ///< freezes that were interrupted

  /// One bio of this round less.
  void answered_one();
  void dump();
};

/// A random elevator or null, sizes and limits: what a disk is changed to.
[[nodiscard]] std::unique_ptr<sched::Elevator> make_elevator(Random& random, const Disk& disk,
                                                             bool timers);
[[nodiscard]] sched::Limits make_limits(Random& random);
[[nodiscard]] Mood make_mood(Random& random, const Options& options);

}  // namespace elevd::torture
