// SPDX-License-Identifier: Apache-2.0
// BfqContext: an issuer on one disk, as bfq knows it: the queue its requests go to, which it may
// share, and what is its own while it does.
//
// Owns:       nothing; BfqPool owns contexts and queues.
// Thread:     under the elevator lock.
// Time:       an argument.
// Invariants: (1) a context that is used has a queue, which counts it;
//             (2) it is in the list of those at rest exactly if nothing of it is queued or at the
//                 device: only such a one is given to another issuer.
// See also:   docs/spec/bfq.md sections 1, 11; bfq_queue.hpp.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <optional>

#include "bio.hpp"
#include "units.hpp"

namespace elevd::sched {

struct BfqQueue;
namespace bi = boost::intrusive;

/// What is known of the ways of an issuer; it is kept when the issuer shares a queue.
struct BfqHabits {
  std::optional<Instant> last_completion;
  // Think time: moving averages in units of 1/256.
  std::uint64_t think_samples = 0;
  std::uint64_t think_total = 0;
  bool short_think = true;
  // Whether it keeps the device busy.
  bool io_bound = true;
  std::optional<Instant> window_start;
  Duration idle_in_window;

  // Raising (section 9).
  std::optional<Instant> idle_from;  ///< nothing queued or at the device; null: it never was
  std::optional<Instant> soft_from;  ///< a request after this is one of a soft real-time issuer
  std::optional<Instant> interactive_start;  ///< of a soft real-time one that was that before
  Instant raise_start;
  Duration raise_time;
  std::uint64_t service_raised = 0;  ///< sectors
  bool in_burst = false;             ///< of a large one

  // Injection (section 12).
  std::uint32_t inject_limit = 0;      ///< requests at the device below which others are served
  std::optional<Duration> time_alone;  ///< of a request with nothing else at the device
  Instant inject_from;                 ///< both are of the time since then
};

struct BfqContext {
  using Hook = bi::list_member_hook<bi::link_mode<bi::auto_unlink>>;

  Hook by_issuer;  ///< in the table of the pool
  Hook at_rest;    ///< see invariant 2; of nobody: in the list of the free ones
  std::uint64_t issuer = 0;
  BfqQueue* queue = nullptr;  ///< of what it waits for
  IoPriority priority;
  std::uint32_t outstanding = 0;  ///< requests it waits for, queued or at the device
  Instant rests_from;
  bool stably_merged = false;  ///< its queue is shared for good

  // From when it began to share a queue.
  BfqHabits saved;
  std::uint32_t saved_raise = 1;
};

}  // namespace elevd::sched
