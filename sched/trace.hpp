// SPDX-License-Identifier: Apache-2.0
// Trace: the events of block tracing, reported to a sink that is null in production.
//
// Owns:       nothing.
// Thread:     called by workers at any time, several at once; a sink synchronises itself.
// Time:       the worker's clock reading of this turn.
// See also:   docs/spec/plug-and-merge.md (letters), docs/spec/scenario.md section 4.
#pragma once

#include "bio.hpp"
#include "request.hpp"
#include "units.hpp"

namespace elevd::sched {

enum class TraceEvent : char {
  queued = 'Q',
  split = 'X',
  got_tag = 'G',
  plugged = 'P',
  unplugged = 'U',
  inserted = 'I',
  back_merged = 'M',
  front_merged = 'F',
  request_merged = 'm',
  issued = 'D',
  completed = 'C',
  requeued = 'R',
};

class TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// queued, split (`n` = sectors of the first piece), back_merged, front_merged.
  virtual void bio_event(TraceEvent event, const Bio& bio, std::uint64_t n, Instant now) = 0;
  /// got_tag, inserted, request_merged, issued, completed, requeued.
  virtual void request_event(TraceEvent event, const Request& rq, Instant now) = 0;
  /// plugged, unplugged (`n` = number of requests), by worker index.
  virtual void plug_event(TraceEvent event, unsigned worker, std::uint64_t n, Instant now) = 0;
};

}  // namespace elevd::sched
