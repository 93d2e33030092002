// SPDX-License-Identifier: Apache-2.0
// Worker: what one worker thread has for itself of the block layer: plug, lists, mailbox.
//
// Owns:       the plug; links bios and queue contexts that wait for the loop's next step.
// Thread:     its own thread only; other threads use `mailbox` and nothing else.
// Time:       `now` is set by the loop once a turn.
// Invariants: what completes something never dispatches, submits or answers: it appends to the
//             lists here, and the loop works them off (docs/architecture.md, rule 1).
// See also:   request_queue.hpp; docs/architecture.md "Concurrency rules".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bio.hpp"
#include "mailbox.hpp"
#include "plug.hpp"
#include "request.hpp"
#include "trace.hpp"

namespace elevd::sched {

struct QueueContext;
class Worker;

/// Entries of a list worked off in one turn (docs/architecture.md, rule 1).
inline constexpr unsigned kEntriesPerTurn = 64;
/// Most requests that a dispatcher gives to the driver in a turn. More than comes in at once: what
/// stays in the elevator until a later turn has left the caches by then.
inline constexpr unsigned kDispatchesPerTurn = 256;

/// Takes requests to the device. One per worker, used by that worker only.
class Driver {
 public:
  virtual ~Driver() = default;
  /// How many requests may be issued now; 0: none, and run() is called on `queue` when that
  /// changes.
  [[nodiscard]] virtual unsigned budget(RequestQueue& queue) = 0;
  /// Takes `rq`, which is completed later by RequestQueue::complete (at once is allowed). False: no
  /// resource now; `rq` stays with the caller and run() is called on its queue when that changes.
  [[nodiscard]] virtual bool issue(Request& rq) = 0;
  /// Asked for a bio that has to be cut and found the plug empty: whether nothing follows it in
  /// this burst, so that it counts as submitted alone.
  [[nodiscard]] virtual bool burst_is_over(RequestQueue&) { return false; }
};

using RunList =
    bi::list<QueueContext, bi::base_hook<bi::list_base_hook<>>, bi::constant_time_size<false>>;

class Worker {
 public:
  /// `peers` holds every worker by index, this one included, and outlives it.
  Worker(unsigned index, std::span<Worker* const> peers, Driver& driver);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Flushes the plug. `from_schedule`: a bio is about to be parked, so nothing is issued directly.
  void flush_plug(bool from_schedule);

  /// Goes on with at most kEntriesPerTurn woken bios.
  void resume_woken();

  /// Runs at most kEntriesPerTurn queues that something became dispatchable in.
  void run_queues();

  /// Puts a mail about a bio where it belongs (`woken` or `finished`). REQUIRES: not a command.
  void take_mail(MailNode& node);

  /// Hands bios whose tag is there to their owners: own ones to `woken`, others by message.
  void hand_out(BioList& bios);

  /// Sends `node` to the worker `to`; if it sleeps, its bit in `to_wake` is set.
  void post(unsigned to, MailNode& node);

  /// An elevator wants to be asked at `at`: the loop sleeps no longer than that.
  void bound_sleep(Instant at) {
    if (!wake_at || at < *wake_at) wake_at = at;
  }

  /// True when there is something to do before sleeping.
  [[nodiscard]] bool has_work() const;

  [[nodiscard]] unsigned index() const { return index_; }
  [[nodiscard]] Driver& driver() { return driver_; }

  Instant now;
  Plug plug;
  BioList finished;                ///< to be answered
  BioList woken;                   ///< to go on
  RunList runs;                    ///< to be run
  std::uint64_t to_wake = 0;       ///< sleeping workers that got mail in this turn
  std::optional<Instant> wake_at;  ///< earliest timer of an elevator
  Mailbox mailbox;
  TraceSink* trace = nullptr;

 private:
  unsigned index_;
  std::span<Worker* const> peers_;
  Driver& driver_;
};

}  // namespace elevd::sched
