// SPDX-License-Identifier: Apache-2.0
// Freezer: closes the gates of a disk, waits until nothing is inside, opens them again.
//
// Owns:       a gate command per worker.
// Thread:     freeze and thaw by one thread, the keeper; signal by any.
// Time:       waits as long as the disk needs; cancel and signal end that.
// Invariants: (1) between freeze() == true and thaw() no bio is inside the queue, and every access
//                 of a worker to it happened before;
//             (2) a command is sent again only after it was executed.
// See also:   docs/architecture.md "Concurrency rules", rule 13.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "command.hpp"
#include "sched/request_queue.hpp"

namespace elevd::daemon {

class Freezer {
 public:
  /// `ports` has one entry per worker of the queue, in order, and outlives this.
  Freezer(sched::RequestQueue& queue, std::span<WorkerPort* const> ports);
  ~Freezer();

  /// True: frozen. False: `cancel` became true first; the gates are open again.
  [[nodiscard]] bool freeze(const std::atomic<bool>& cancel);
  /// Opens the gates and lets what waited there enter. REQUIRES: frozen.
  void thaw();
  /// Closes the gates and leaves them so: what comes from now on waits.
  void close() { send_to_all(true); }
  /// Waits until nothing is inside, without closing anything. False: cancelled.
  [[nodiscard]] bool drain(const std::atomic<bool>& cancel);
  /// Something that freeze() waits for may have happened: a bio left, or `cancel` was set.
  void signal();

 private:
  class GateCommand;
  void send_to_all(bool close);

  sched::RequestQueue& queue_;
  std::span<WorkerPort* const> ports_;
  std::vector<std::unique_ptr<GateCommand>> commands_;
  std::atomic<std::uint32_t> signals_{0};
  std::atomic<std::uint32_t> unanswered_{0};
};

}  // namespace elevd::daemon
