// SPDX-License-Identifier: Apache-2.0
// WorkerLoop: the loop of a worker, without what it is connected to.
//
// Owns:       the sched::Worker.
// Thread:     run() in the worker's thread; everything else from there, but for the mailbox.
// Time:       the clock is read once a turn, by now().
// Invariants: (1) the plug is empty whenever the worker sleeps;
//             (2) it sleeps only when no list has an entry, no front has a request it could read,
//                 and the mailbox was empty after it had said so.
// See also:   docs/architecture.md "The way of one write"; io_worker.hpp (the real one),
//             tests/torture (the fake ones).
#pragma once

#include <optional>
#include <span>

#include "command.hpp"
#include "sched/request_queue.hpp"
#include "sched/worker.hpp"

namespace elevd::daemon {

class WorkerLoop {
 public:
  WorkerLoop(unsigned index, std::span<sched::Worker* const> peers, sched::Driver& driver)
      : worker_(index, peers, driver) {}
  virtual ~WorkerLoop() = default;

  /// Turns until stop() was called in this thread.
  void run();
  void stop() { stopping_ = true; }

  [[nodiscard]] sched::Worker& worker() { return worker_; }

 protected:
  /// The clock.
  virtual sched::Instant now() = 0;
  /// Looks at what the ring has done and completes requests.
  virtual void reap() = 0;
  /// Takes new requests from the front ends and submits their bios.
  virtual void admit() = 0;
  /// Whether no front end has a request that could be admitted now. Asked last before sleeping.
  virtual bool may_sleep() = 0;
  /// Answers a bio whose owner this is, or any if the front allows that. The bio is gone then.
  virtual void answer(sched::Bio& bio) = 0;
  /// A bio left while its gate is closed: tell the keeper of the queue.
  virtual void left_closed_gate(sched::RequestQueue& queue) = 0;
  /// The queues whose elevators may have set a timer.
  virtual std::span<sched::RequestQueue* const> timed_queues() = 0;
  /// Rings, polls, wake-ups of peers (worker().to_wake): everything goes to the kernel now. With
  /// `sleep`, waits for an event, at the longest until `until`.
  virtual void submit(bool sleep, std::optional<sched::Instant> until) = 0;

 private:
  void take_mail();
  void answer_finished();
  void turn();

  sched::Worker worker_;
  bool stopping_ = false;
};

}  // namespace elevd::daemon
