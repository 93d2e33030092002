// SPDX-License-Identifier: Apache-2.0
// The rare half of Lock; alone in its object file, so that tests/bench/bfq_contention can measure
// it.
#include "lock.hpp"

namespace elevd::sched {
namespace {

// Long enough for a batch under the lock: a plug that is inserted, a burst that is pulled.
constexpr int kSpins = 400;

}  // namespace

void Lock::lock_contended() {
  for (int i = 0; i < kSpins; ++i) {
    if (word_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
    cpu_relax();
  }
  while (word_.exchange(kHeldAndAwaited, std::memory_order_acquire) != kFree) {
    word_.wait(kHeldAndAwaited, std::memory_order_relaxed);
  }
}

}  // namespace elevd::sched
