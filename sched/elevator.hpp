// SPDX-License-Identifier: Apache-2.0
// Elevator: the scheduler of a disk, which decides what leaves next.
//
// Owns:       its own structures; links requests and bios that others keep alive.
// Thread:     every call under the elevator lock of its queue, unless it says otherwise. Tunables
// of
//             an elevator are plain members, read and written under that lock as well.
// Time:       an argument; timers are what wake_at() says.
// Invariants: a request inserted is given out by dispatch() exactly once, and finished once.
// See also:   request_queue.hpp, mq_deadline.hpp, docs/spec/tags-and-depth.md sections 4, 7.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "bio.hpp"
#include "groups.hpp"
#include "merge.hpp"
#include "request.hpp"
#include "tag_map.hpp"
#include "units.hpp"

namespace elevd::sched {

/// What an elevator may look at of its queue, for merging.
struct ElevatorContext {
  const Limits* limits = nullptr;
  const std::atomic<unsigned>* nomerges = nullptr;  ///< 0, 1 or 2
  unsigned workers = 64;                            ///< indices of workers are below that
  const Groups* groups = nullptr;                   ///< null: there is the root only
  const GroupWeights* group_weights = nullptr;      ///< null: all weigh the same
};

class Elevator {
 public:
  virtual ~Elevator() = default;

  /// The queue it serves from now on; called once, before everything else.
  void attach(const ElevatorContext& context) { context_ = context; }

  /// Its name as queue/scheduler shows it.
  [[nodiscard]] virtual std::string_view name() const = 0;

  /// Takes a whole plug; requests with kRqAtHead go before everything. `merged` gets requests that
  /// were merged into queued ones: they have no bios left, the caller frees their tags. Requests
  /// with kRqLookupSkipped are given what bio_merge would have done for their bio. A request that
  /// comes a second time (requeued) is not counted again.
  virtual void insert(RequestList& list, RequestList& merged, Instant now) = 0;

  /// The next request, or null: nothing may leave now.
  virtual Request* dispatch(Instant now) = 0;

  [[nodiscard]] virtual bool has_work() const = 0;

  /// False: nothing is queued that a bio could join, so nobody takes the lock to look. Called
  /// without the lock; reads atomics only.
  [[nodiscard]] virtual bool has_candidates() const { return true; }

  /// Tries to join `bio` to a queued request; `merged` as for insert.
  virtual MergeResult bio_merge(Bio& bio, RequestList& merged, Instant now) = 0;

  /// Veto on a plug merge of two bios that all other rules allow. Called without the lock by the
  /// worker that owns both.
  [[nodiscard]] virtual bool allow_merge(const Request& rq, const Bio& bio) const = 0;

  /// True: completed() is called without the lock and touches atomics only.
  [[nodiscard]] virtual bool completes_without_lock() const { return false; }

  /// The device is done with `rq`. True: something may have become dispatchable by that.
  [[nodiscard]] virtual bool completed(Request& rq, Instant now) = 0;

  /// The class and depth that `bio` is limited to. Called without the lock; reads atomics only.
  [[nodiscard]] virtual DepthLimit limit(const Bio& bio) const = 0;

  /// async_depth of a freshly attached scheduler, docs/spec/tags-and-depth.md section 4.
  [[nodiscard]] virtual std::uint32_t default_async_depth(std::uint32_t nr_requests) const {
    return nr_requests;
  }

  /// nr_requests or async_depth changed (frozen queue); returns the new min_shallow_depth.
  [[nodiscard]] virtual std::uint32_t depth_updated(std::uint32_t nr_requests,
                                                    std::uint32_t async_depth) = 0;

  /// Ask dispatch() again then, even if nothing arrives.
  [[nodiscard]] virtual std::optional<Instant> wake_at() const = 0;

  /// A timer that has nothing to do with what is queued: every queue run calls timer() first, with
  /// work or without, and whoever ran the queue does not sleep beyond timer_at(). completed() of an
  /// elevator that needs no lock for it says true when it set the timer.
  [[nodiscard]] virtual std::optional<Instant> timer_at() const { return std::nullopt; }
  virtual void timer(Instant) {}

  /// Whether it looks at the groups of submitters.
  [[nodiscard]] virtual bool knows_groups() const { return false; }
  /// The weight of some group is another one.
  virtual void group_weights_changed() {}

 protected:
  [[nodiscard]] const Limits& limits() const { return *context_.limits; }
  [[nodiscard]] unsigned workers() const { return context_.workers; }
  [[nodiscard]] const Groups* groups() const { return context_.groups; }
  [[nodiscard]] const GroupWeights* group_weights() const { return context_.group_weights; }
  [[nodiscard]] unsigned nomerges() const {
    return context_.nomerges->load(std::memory_order_relaxed);
  }

 private:
  ElevatorContext context_;
};

}  // namespace elevd::sched
