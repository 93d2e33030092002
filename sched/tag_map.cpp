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

/// Wakes at most `most` bios, going round robin; the index advances before a queue is looked at,
/// so a queue need not be emptied first.
void TagMap::wake(std::uint32_t most, BioList& woken) {
  unsigned index = wake_index_.load(std::memory_order_relaxed);
  unsigned empty_in_a_row = 0;
  while (most > 0 && empty_in_a_row < kWaitQueues) {
    BioList& queue = queues_[index];
    index = (index + 1) % kWaitQueues;
    if (queue.empty()) {
      ++empty_in_a_row;
      continue;
    }
    empty_in_a_row = 0;
    Bio& bio = queue.front();
    queue.pop_front();
    unpark(bio, woken);
    --most;
  }
  wake_index_.store(index, std::memory_order_relaxed);
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
  if (was_woken) {
    // It goes from woken to parked: its old count ends here, a new one begins below.
    waiting_.fetch_sub(one(bio.depth_class), std::memory_order_seq_cst);
    --woken_unserved_;
    bio.flags = static_cast<BioFlags>(bio.flags & ~kBioWoken);
  }
  bio.depth_class = static_cast<std::uint8_t>(limit.depth_class);
  const std::uint64_t count = one(bio.depth_class);
  queues_[park_index_].push_back(bio);
  waiting_.fetch_add(count, std::memory_order_seq_cst);
  parked_.fetch_add(count, std::memory_order_seq_cst);
  if (privileged || !others_wait) {
    // Counted first, tried then: whoever frees a tag from now on sees the count.
    const std::int32_t tag = bitmap_.get(worker, limit.shallow);
    if (tag >= 0) {
      queues_[park_index_].pop_back();
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
