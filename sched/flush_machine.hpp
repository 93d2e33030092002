// SPDX-License-Identifier: Apache-2.0
// FlushMachine: takes requests with PREFLUSH or FUA through their steps; many share one FLUSH.
//
// Owns:       the one FLUSH request; links requests that wait for a FLUSH.
// Thread:     every call under the elevator lock of its queue.
// Time:       an argument.
// Invariants: (1) at most one FLUSH runs; (2) a request waits only for a FLUSH that was issued
//             after it began to wait (double buffer); (3) steps are PREFLUSH, DATA, POSTFLUSH.
// See also:   docs/spec/plug-and-merge.md section 8.
#pragma once

#include "request.hpp"
#include "units.hpp"

namespace elevd::sched {

class FlushMachine {
 public:
  static constexpr Duration kStarvation{5'000'000'000};

  /// Steps a request of that kind needs on a write-back queue; 0 or kStepData alone: none of ours.
  [[nodiscard]] static std::uint8_t steps_for(BioFlags flags, bool has_data, bool fua);

  /// `rq` (steps set, not begun) enters; what is to be done next comes out in the lists.
  struct Outcome {
    RequestList data;          ///< to be inserted as normal writes now
    RequestList done;          ///< finished, rq.error says how
    Request* flush = nullptr;  ///< the FLUSH command, to go to the front of the residual list
  };
  void enter(Request& rq, Instant now, Outcome& out);

  /// The DATA step of `rq` is over.
  void data_completed(Request& rq, Instant now, Outcome& out);

  /// The FLUSH is over, with `error`.
  void flush_completed(int error, Instant now, Outcome& out);

  /// Issues a FLUSH if one is due.
  void kick(Instant now, Outcome& out);

  [[nodiscard]] const Request& flush_request() const { return flush_; }
  [[nodiscard]] bool idle() const {
    return !running_ && pending_.empty() && in_flush_.empty() && data_in_flight_ == 0;
  }

 private:
  void next_step(Request& rq, Instant now, Outcome& out);

  RequestList pending_;   ///< wait for the next FLUSH
  RequestList in_flush_;  ///< wait for the one that runs
  std::uint32_t data_in_flight_ = 0;
  Instant pending_since_;
  bool running_ = false;
  Request flush_;
};

}  // namespace elevd::sched
