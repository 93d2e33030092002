// SPDX-License-Identifier: Apache-2.0
// closed_loop: threads that keep a number of random I/Os outstanding through the core, on a device
// that completes what it has in the order it came.
//
// Owns:       for one run: queue, workers, threads.
// Thread:     run_closed_loop is called by one thread at a time; it starts those it needs.
// Time:       the steady clock, read once a turn of a thread, as the daemon does.
// See also:   dispatch.cpp, bfq_contention.cpp.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "sched/elevator.hpp"
#include "sched/request_queue.hpp"

namespace elevd::bench {

struct ClosedLoop {
  std::string name;          ///< for messages
  unsigned threads = 1;      ///< each one worker
  unsigned issuers = 1;      ///< of each thread; its bios are theirs in turn
  unsigned groups = 0;       ///< the issuers of a thread are in these in turn; 0: all in the root
  unsigned outstanding = 1;  ///< of all threads; each submits a whole burst or nothing
  unsigned burst = 16;
  unsigned device_tags = 1;
  unsigned sched_tags = 0;  ///< at least one for each that is outstanding
  bool writes = false;      ///< every second I/O is a synchronous write, else all are reads
  std::chrono::milliseconds duration{250};
  std::unique_ptr<sched::Elevator> elevator;  ///< null: none
  /// Called before the first I/O.
  std::function<void(sched::RequestQueue&)> prepare = [](sched::RequestQueue&) {};
};

struct LoopResult {
  double ns_a_request = 0;  ///< of the whole machine
  double wait_share = 0;    ///< time in which threads waited for locks / CPU time they had
  sched::Stats stats;       ///< of the whole run
};

/// Time that the calling thread waited for locks, ns: whoever measures it adds to it. See
/// bfq_contention.cpp.
[[nodiscard]] std::atomic<std::uint64_t>& lock_wait_ns();

/// Runs it; ends the program with status 1 if nothing was done or something was lost.
[[nodiscard]] LoopResult run_closed_loop(ClosedLoop what);

}  // namespace elevd::bench
