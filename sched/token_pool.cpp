// SPDX-License-Identifier: Apache-2.0
#include "token_pool.hpp"

#include "assertion.hpp"
#include "tag_map.hpp"

namespace elevd::sched {

TokenPool::TokenPool(std::uint32_t most)
    : bitmap_(most, most, 1), wake_batch_(TagMap::wake_batch_for(most, Sbitmap::kUnlimited)) {}

TokenPool::~TokenPool() { ELEVD_ASSERT(out() == 0); }

/// The mark first, then once more: who puts a token back in between sees the mark.
std::int32_t TokenPool::get() {
  std::int32_t token = bitmap_.get(kTaker);
  if (token < 0 && !waiting()) {
    wait_queue_.store(next_wait_queue_, std::memory_order_relaxed);
    next_wait_queue_ = (next_wait_queue_ + 1) % TagMap::kWaitQueues;
    waiting_.store(true, std::memory_order_seq_cst);
    token = bitmap_.get(kTaker);
  }
  if (token < 0) return -1;
  if (waiting()) waiting_.store(false, std::memory_order_seq_cst);
  return token;
}

bool TokenPool::put(std::uint32_t token) {
  bitmap_.put(token, kTaker);
  if (!waiting_.load(std::memory_order_seq_cst)) return false;
  std::uint32_t puts = puts_.load(std::memory_order_relaxed);
  bool enough = false;
  do {
    enough = puts + 1 >= wake_batch();
  } while (!puts_.compare_exchange_weak(puts, enough ? 0 : puts + 1, std::memory_order_seq_cst));
  return enough && stop_waiting();
}

void TokenPool::set_depth(std::uint32_t depth) {
  bitmap_.resize(depth);
  wake_batch_.store(TagMap::wake_batch_for(depth, Sbitmap::kUnlimited), std::memory_order_relaxed);
  puts_.store(0, std::memory_order_relaxed);
  static_cast<void>(stop_waiting());
}

/// True: somebody waited.
bool TokenPool::stop_waiting() {
  if (!waiting_.exchange(false, std::memory_order_seq_cst)) return false;
  const unsigned at = wait_queue_.load(std::memory_order_relaxed);
  wake_index_.store((at + 1) % TagMap::kWaitQueues, std::memory_order_relaxed);
  return true;
}

TagMapView TokenPool::view() const {
  TagMapView view = view_of(bitmap_);
  view.wake_batch = wake_batch();
  view.wake_index = wake_index_.load(std::memory_order_relaxed);
  view.min_shallow_depth = Sbitmap::kUnlimited;
  if (waiting()) {
    view.parked = 1;
    view.active[wait_queue_.load(std::memory_order_relaxed)] = true;
  }
  return view;
}

}  // namespace elevd::sched
