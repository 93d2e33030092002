// SPDX-License-Identifier: Apache-2.0
#include "tag_map.hpp"

#include <algorithm>

#include "assertion.hpp"

namespace elevd::sched {

TagMap::TagMap(std::uint32_t capacity, std::uint32_t depth, unsigned workers)
    : bitmap_(capacity, depth, workers),
      requests_(std::make_unique<Request[]>(capacity)),
      wake_batch_(wake_batch_for(depth, Sbitmap::kUnlimited)) {}

TagMap::~TagMap() { ELEVD_ASSERT(waiting_.load() == 0 && bitmap_.busy() == 0); }

std::uint32_t TagMap::wake_batch_for(std::uint32_t depth, std::uint32_t min_shallow) {
  return std::clamp(std::min(depth, min_shallow) / kWaitQueues, 1U, kMaxWakeBatch);
}

void TagMap::set_depth(std::uint32_t depth) {
  ELEVD_ASSERT(waiting_.load() == 0);
  bitmap_.set_depth(depth);
  wake_batch_ = wake_batch_for(depth, min_shallow_);
}

void TagMap::set_min_shallow_depth(std::uint32_t min_shallow) {
  ELEVD_ASSERT(waiting_.load() == 0);
  min_shallow_ = min_shallow;
  wake_batch_ = wake_batch_for(bitmap_.depth(), min_shallow);
}

void TagMap::unpark(Bio& bio, BioList& woken) {
  parked_.fetch_sub(one(bio.depth_class), std::memory_order_seq_cst);
  bio.flags |= kBioWoken;
  ++woken_unserved_;
  woken.push_back(bio);
}

/// Wakes at most `most` bios, those first that wait longest. Bios are parked round robin, so this
/// goes round the queues as the kernel does; but whoever was woken and found no tag kept its
/// number, and is not behind those that came later (docs/architecture.md, rule 7).
void TagMap::wake(std::uint32_t most, BioList& woken) {
  for (; most > 0; --most) {
    unsigned oldest = kWaitQueues;
    for (unsigned q = 0; q < kWaitQueues; ++q) {
      if (queues_[q].empty()) continue;
      if (oldest == kWaitQueues ||
          queues_[q].front().wait_number < queues_[oldest].front().wait_number) {
        oldest = q;
      }
    }
    if (oldest == kWaitQueues) return;
    Bio& bio = queues_[oldest].front();
    queues_[oldest].pop_front();
    unpark(bio, woken);
    wake_index_.store((oldest + 1) % kWaitQueues, std::memory_order_relaxed);
  }
}

/// Links `bio` into a queue by its number; all but woken ones get the next.
void TagMap::park(Bio& bio, BioList& queue, bool was_woken) {
  auto at = queue.end();
  if (was_woken) {
    at = queue.begin();
    while (at != queue.end() && at->wait_number < bio.wait_number) ++at;
  } else {
    bio.wait_number = ++wait_numbers_;
  }
  queue.insert(at, bio);
}

void TagMap::wake_less_limited(unsigned depth_class, BioList& woken) {
  const std::uint64_t parked = parked_.load(std::memory_order_relaxed);
  if (depth_class == 0 || (parked & (one(depth_class) - 1)) == 0) return;
  for (unsigned n = 0; n < kWaitQueues; ++n) {
    BioList& queue = queues_[(wake_index_.load(std::memory_order_relaxed) + n) % kWaitQueues];
    for (auto it = queue.begin(); it != queue.end(); ++it) {
      if (it->depth_class >= depth_class) continue;
      Bio& bio = *it;
      queue.erase(it);
      unpark(bio, woken);
      return;
    }
  }
}

/// The last woken bio has its tag: who parked behind it without a try counts on being woken if
/// tags are left (invariant 3).
void TagMap::wake_idle_tags(BioList& woken) {
  if (woken_unserved_ != 0 || parked_.load(std::memory_order_seq_cst) == 0) return;
  if (bitmap_.depth() - bitmap_.busy() >= wake_batch_) wake(wake_batch_, woken);
}

std::int32_t TagMap::get_or_park(Bio& bio, unsigned worker, DepthLimit limit, bool privileged,
                                 BioList& woken) {
  const LockGuard guard(wait_lock_);
  const bool was_woken = (bio.flags & kBioWoken) != 0;
  const bool others_wait = somebody_waits(limit.depth_class);
  const std::uint64_t old_count = was_woken ? one(bio.depth_class) : 0;
  if (was_woken) {
    --woken_unserved_;
    bio.flags = static_cast<BioFlags>(bio.flags & ~kBioWoken);
  }
  bio.depth_class = static_cast<std::uint8_t>(limit.depth_class);
  const std::uint64_t count = one(bio.depth_class);
  BioList& queue = queues_[park_index_];
  park(bio, queue, was_woken);
  // From woken to parked in one step: in between a new bio would overtake it.
  waiting_.fetch_add(count - old_count, std::memory_order_seq_cst);
  parked_.fetch_add(count, std::memory_order_seq_cst);
  if (privileged || !others_wait) {
    // Counted first, tried then: whoever frees a tag from now on sees the count.
    const std::int32_t tag = bitmap_.get(worker, limit.shallow);
    if (tag >= 0) {
      queue.erase(queue.iterator_to(bio));
      waiting_.fetch_sub(count, std::memory_order_seq_cst);
      parked_.fetch_sub(count, std::memory_order_seq_cst);
      if (was_woken) wake_idle_tags(woken);
      return tag;
    }
  }
  park_index_ = (park_index_ + 1) % kWaitQueues;
  if (was_woken) wake_less_limited(bio.depth_class, woken);
  return -1;
}

void TagMap::served(Bio& bio, BioList& woken) {
  const LockGuard guard(wait_lock_);
  bio.flags = static_cast<BioFlags>(bio.flags & ~kBioWoken);
  waiting_.fetch_sub(one(bio.depth_class), std::memory_order_seq_cst);
  --woken_unserved_;
  wake_idle_tags(woken);
}

void TagMap::put(std::uint32_t tag, unsigned worker, BioList& woken) {
  bitmap_.put(tag, worker);
  if (parked_.load(std::memory_order_seq_cst) == 0) return;
  const LockGuard guard(wait_lock_);
  ++completions_;
  while (completions_ - wakeups_ >= wake_batch_) {
    wakeups_ += wake_batch_;
    wake(wake_batch_, woken);
  }
}

bool TagMap::queue_active(unsigned index) {
  const LockGuard guard(wait_lock_);
  return !queues_[index].empty();
}

}  // namespace elevd::sched
