// SPDX-License-Identifier: Apache-2.0
// Plug: holds the requests of one burst back, so that neighbours can join before the elevator
// sees them.
//
// Owns:       nothing; links requests, which hold tags.
// Thread:     the worker that owns it, no other; there is no lock, on purpose.
// Invariants: (1) requests leave in the order they came, grouped by queue;
//             (2) a bio is tried against the newest request of its queue only, never by scanning;
//             (3) empty whenever its worker sleeps or parks a bio.
// See also:   docs/spec/plug-and-merge.md sections 2, 3; request_queue.cpp (who fills it).
#pragma once

#include "request.hpp"

namespace elevd::sched {

/// Requests a plug takes before it is flushed; more once it holds several queues.
inline constexpr unsigned kPlugRequests = 32;
inline constexpr unsigned kPlugRequestsSeveralQueues = 64;
/// The oldest request being this large flushes the plug.
inline constexpr Bytes kPlugFlushSize{128 * 1024};

struct Plug {
  RequestList requests;
  unsigned count = 0;
  bool several_queues = false;

  [[nodiscard]] bool empty() const { return count == 0; }
  /// True when the plug must be flushed before another request goes in. `by_size` is off with
  /// nomerges = 2. The size of the oldest request is measured (since 6.13).
  [[nodiscard]] bool full(bool by_size) const {
    if (count >= (several_queues ? kPlugRequestsSeveralQueues : kPlugRequests)) return true;
    return by_size && count != 0 && requests.front().length.bytes() >= kPlugFlushSize;
  }
  void add(Request& rq) {
    if (count != 0 && requests.back().queue != rq.queue) several_queues = true;
    requests.push_back(rq);
    ++count;
  }
};

}  // namespace elevd::sched
