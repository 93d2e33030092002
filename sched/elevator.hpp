// SPDX-License-Identifier: Apache-2.0
// Elevator: the scheduler of a disk, which decides what leaves next.
//
// Owns:       its own structures; links requests and bios that others keep alive.
// Thread:     every call under the elevator lock of its queue, unless it says otherwise.
// Time:       an argument; timers are what wake_at() says.
// Invariants: a request inserted is given out by dispatch() exactly once, and finished once.
// See also:   request_queue.hpp, docs/spec/tags-and-depth.md sections 4, 7.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "bio.hpp"
#include "merge.hpp"
#include "request.hpp"
#include "tag_map.hpp"
#include "units.hpp"

namespace elevd::sched {

class Elevator {
 public:
  virtual ~Elevator() = default;

  /// Its name as queue/scheduler shows it.
  [[nodiscard]] virtual std::string_view name() const = 0;

  /// Takes a whole plug; requests with kRqAtHead go before everything. `merged` gets requests that
  /// were merged into queued ones: they have no bios left, the caller frees their tags.
  virtual void insert(RequestList& list, RequestList& merged, Instant now) = 0;

  /// The next request, or null: nothing may leave now.
  virtual Request* dispatch(Instant now) = 0;

  [[nodiscard]] virtual bool has_work() const = 0;

  /// Tries to join `bio` to a queued request; `merged` as for insert.
  virtual MergeResult bio_merge(Bio& bio, RequestList& merged, Instant now) = 0;

  /// Veto on a plug merge of two bios that all other rules allow. Called without the lock by the
  /// worker that owns both.
  [[nodiscard]] virtual bool allow_merge(const Request& rq, const Bio& bio) const = 0;

  /// The device is done with `rq`. True: something may have become dispatchable by that.
  [[nodiscard]] virtual bool completed(Request& rq, Instant now) = 0;

  /// The class and depth that `bio` is limited to. Called without the lock; reads atomics only.
  [[nodiscard]] virtual DepthLimit limit(const Bio& bio) const = 0;

  /// nr_requests or async_depth changed (frozen queue); returns the new min_shallow_depth.
  [[nodiscard]] virtual std::uint32_t depth_updated(std::uint32_t nr_requests,
                                                    std::uint32_t async_depth) = 0;

  /// Ask dispatch() again then, even if nothing arrives.
  [[nodiscard]] virtual std::optional<Instant> wake_at() const = 0;
};

}  // namespace elevd::sched
