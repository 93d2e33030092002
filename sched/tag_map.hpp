// SPDX-License-Identifier: Apache-2.0
// TagMap: a bitmap of tags, the request of each tag, and the bios that wait for one.
//
// Owns:       the requests; links waiting bios.
// Thread:     any worker. The bitmap is lock free, the wait queues are under the wait lock.
//             resize and set_min_shallow_depth while nobody uses the map (frozen queue).
// Invariants: (1) a bio is parked only if a try made under the wait lock, after it was counted,
//                 found no tag, or somebody of its class or a less limited one waited before it;
//             (2) a waiting bio counts until it has a tag: a new one does not overtake it, parked
//                 or already woken;
//             (3) nobody is parked for ever: when the last woken bio was served and a wake batch of
//                 tags is still free, another batch is woken.
// See also:   docs/spec/tags-and-depth.md section 3, docs/architecture.md "Concurrency rules" 6, 7.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "bio.hpp"
#include "lock.hpp"
#include "request.hpp"
#include "sbitmap.hpp"

namespace elevd::sched {

/// How limited a request is in the tags it may take, from the least to the most limited.
enum class DepthClass : std::uint8_t { unlimited, sync_write, async, over_limit };
inline constexpr unsigned kDepthClasses = 4;

/// The class of a bio and the shallow depth (Sbitmap::kUnlimited: none) that goes with it.
struct DepthLimit {
  DepthClass depth_class = DepthClass::unlimited;
  std::uint32_t shallow = Sbitmap::kUnlimited;
};

class TagMap {
 public:
  static constexpr unsigned kWaitQueues = 8;
  static constexpr std::uint32_t kMaxWakeBatch = 8;

  /// `capacity` requests are made; `depth` of them may be used. REQUIRES: 1 <= depth <= capacity.
  TagMap(std::uint32_t capacity, std::uint32_t depth, unsigned workers);
  ~TagMap();

  /// clamp(min(depth, min_shallow) / 8, 1, 8), docs/spec/tags-and-depth.md section 3.
  [[nodiscard]] static std::uint32_t wake_batch_for(std::uint32_t depth, std::uint32_t min_shallow);

  /// One tag for `worker`, or -1. Does not wait and does not look at who waits.
  [[nodiscard]] std::int32_t try_get(unsigned worker, std::uint32_t shallow) {
    return bitmap_.get(worker, shallow);
  }

  /// True while a bio of `depth_class` or a less limited one waits: a new bio must then park.
  [[nodiscard]] bool somebody_waits(DepthClass depth_class) const {
    return (waiting_.load(std::memory_order_seq_cst) & classes_up_to(depth_class)) != 0;
  }

  /// Parks `bio` at the tail of the next wait queue (one that was woken and got nothing: before
  /// those that came later), unless a try made then gives a tag, which is
  /// returned (-1: parked). A new bio makes no try while somebody waits before it; a privileged one
  /// (it was woken, or has begun) always does, and if it was woken and fails adds to `woken` a less
  /// limited bio that may have more luck. REQUIRES: the plug of the worker is empty.
  [[nodiscard]] std::int32_t get_or_park(Bio& bio, unsigned worker, DepthLimit limit,
                                         bool privileged, BioList& woken);

  /// Says that a woken bio has its tag (clears kBioWoken); may add further bios to `woken`.
  void served(Bio& bio, BioList& woken);

  /// Frees `tag`, which `worker` had taken; bios whose turn it is are unlinked and added to
  /// `woken`.
  void put(std::uint32_t tag, unsigned worker, BioList& woken);

  [[nodiscard]] Request& request(std::uint32_t tag) { return requests_[tag]; }
  [[nodiscard]] const Request& request(std::uint32_t tag) const { return requests_[tag]; }

  void set_depth(std::uint32_t depth);
  void set_min_shallow_depth(std::uint32_t min_shallow);

  [[nodiscard]] const Sbitmap& bitmap() const { return bitmap_; }
  [[nodiscard]] std::uint32_t depth() const { return bitmap_.depth(); }
  [[nodiscard]] std::uint32_t min_shallow_depth() const { return min_shallow_; }
  [[nodiscard]] std::uint32_t wake_batch() const { return wake_batch_; }
  /// Bios parked now; a snapshot.
  [[nodiscard]] std::uint32_t parked() const { return sum(parked_.load()); }
  /// Bios parked or woken and not served; a snapshot.
  [[nodiscard]] std::uint32_t waiting() const { return sum(waiting_.load()); }
  [[nodiscard]] unsigned wake_index() const { return wake_index_.load(std::memory_order_relaxed); }
  /// Whether wait queue `index` holds a bio. Takes the wait lock.
  [[nodiscard]] bool queue_active(unsigned index);

 private:
  static constexpr unsigned kClassBits = 16;

  [[nodiscard]] static constexpr std::uint64_t one(unsigned depth_class) {
    return std::uint64_t{1} << (kClassBits * depth_class);
  }
  [[nodiscard]] static constexpr std::uint64_t classes_up_to(DepthClass depth_class) {
    const unsigned n = static_cast<unsigned>(depth_class) + 1;
    return n == kDepthClasses ? ~std::uint64_t{0} : (std::uint64_t{1} << (kClassBits * n)) - 1;
  }
  [[nodiscard]] static constexpr std::uint32_t sum(std::uint64_t packed) {
    std::uint64_t all = 0;
    for (unsigned c = 0; c < kDepthClasses; ++c) all += (packed >> (kClassBits * c)) & 0xffffU;
    return static_cast<std::uint32_t>(all);
  }

  void wake(std::uint32_t most, BioList& woken) ELEVD_REQUIRES(wait_lock_);
  void park(Bio& bio, BioList& queue, bool was_woken) ELEVD_REQUIRES(wait_lock_);
  void wake_less_limited(unsigned depth_class, BioList& woken) ELEVD_REQUIRES(wait_lock_);
  void wake_idle_tags(BioList& woken) ELEVD_REQUIRES(wait_lock_);
  void unpark(Bio& bio, BioList& woken) ELEVD_REQUIRES(wait_lock_);

  Sbitmap bitmap_;
  std::unique_ptr<Request[]> requests_;
  std::uint32_t min_shallow_ = Sbitmap::kUnlimited;
  std::uint32_t wake_batch_;

  Lock wait_lock_;
  std::array<BioList, kWaitQueues> queues_ ELEVD_GUARDED_BY(wait_lock_);
  unsigned park_index_ ELEVD_GUARDED_BY(wait_lock_) = 0;
  std::uint64_t wait_numbers_ ELEVD_GUARDED_BY(wait_lock_) = 0;
  std::uint64_t completions_ ELEVD_GUARDED_BY(wait_lock_) = 0;
  std::uint64_t wakeups_ ELEVD_GUARDED_BY(wait_lock_) = 0;
  std::uint32_t woken_unserved_ ELEVD_GUARDED_BY(wait_lock_) = 0;
  std::atomic<unsigned> wake_index_{0};
  /// Packed counts per class; written under the wait lock, read without.
  alignas(64) std::atomic<std::uint64_t> parked_{0};
  std::atomic<std::uint64_t> waiting_{0};
};

}  // namespace elevd::sched
