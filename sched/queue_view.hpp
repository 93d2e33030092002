// SPDX-License-Identifier: Apache-2.0
// QueueView: copies of what the debug tree shows of a queue, to be formatted without a lock.
//
// Owns:       copies only.
// Thread:     any.
// Invariants: what is copied under the elevator lock fits together; tags and requests at the driver
//             move on meanwhile, so those are snapshots of atomics.
// See also:   request_queue.hpp (view_*), docs/spec/sysfs.md section 8.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "request.hpp"
#include "tag_map.hpp"

namespace elevd::sched {

/// A line of a request list.
struct RequestView {
  const void* address = nullptr;
  Op op = Op::read;
  BioFlags bio_flags = 0;
  RequestFlags flags = 0;
  bool at_driver = false;
  std::int32_t tag = -1;
  std::int32_t internal_tag = -1;
};

/// REQUIRES: the lock of the list that `rq` is in.
[[nodiscard]] RequestView view_of(const Request& rq);

/// Writes down, for view_busy, that the driver has `rq`, or (false) has it no more.
void show_at_driver(Request& rq, bool on);

/// A tag map; `depth` 0: there is none.
struct TagMapView {
  std::uint32_t depth = 0;
  std::uint32_t busy = 0;
  std::uint32_t cleared = 0;
  std::uint32_t bits_per_word = 0;
  std::uint32_t word_count = 0;
  std::vector<std::uint32_t> hints;  ///< per worker
  std::uint32_t wake_batch = 0;
  std::uint32_t wake_index = 0;
  std::uint32_t parked = 0;
  std::array<bool, TagMap::kWaitQueues> active{};
  bool round_robin = false;
  std::uint32_t min_shallow_depth = 0;
  std::vector<std::uint8_t> bits;  ///< bit 0 of byte 0 is tag 0; 1: taken
};

/// What a bitmap says of itself; the rest is left as it is above.
[[nodiscard]] TagMapView view_of(const Sbitmap& bitmap);

}  // namespace elevd::sched
