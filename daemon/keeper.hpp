// SPDX-License-Identifier: Apache-2.0
// Keeper: carries out the changes of one disk that need it frozen, one at a time.
//
// Owns:       its thread, the changes that wait.
// Thread:     submit from the control thread, stop from the main thread.
// Time:       a change waits as long as the disk needs to drain; its caller can end that (EINTR).
// Invariants: (1) one change at a time; a change that was let go has changed nothing;
//             (2) a stalled disk holds up its own keeper and nobody else.
// See also:   freezer.hpp, control.hpp; docs/spec/elevator-switch.md sections 1.2, 4;
//             docs/architecture.md "Concurrency rules", rule 13.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "control.hpp"
#include "freezer.hpp"

namespace elevd::daemon {

class Keeper {
 public:
  explicit Keeper(std::shared_ptr<Freezer> freezer);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// Takes a change. Answers EBUSY at once when a depth change meets a scheduler or depth change,
  /// or a scheduler change meets a depth change; everything else waits for its turn.
  void submit(sysfs::Change change, std::unique_ptr<PendingStore> store);

  /// Takes work of the daemon itself, which nobody interrupts and nothing refuses.
  void post(std::function<void()> task);

  /// Lets every change go with EINTR, and all that come from now on. Posted tasks go on.
  void cancel_changes();
  /// After the tasks that were posted, ends the thread. Idempotent.
  void stop();

 private:
  struct Job;
  struct State;
  static void serve(State& state);
  [[nodiscard]] static int carry_out(State& state, Job& job);
  static void interrupt(const std::shared_ptr<State>& state, const std::shared_ptr<Job>& job);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace elevd::daemon
