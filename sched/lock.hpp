// SPDX-License-Identifier: Apache-2.0
// Lock: the one lock type of sched. It spins shortly, then sleeps on its own word.
//
// Owns:       one 32-bit word.
// Thread:     any; not recursive.
// Time:       none.
// Invariants: no lock is held over a system call or a reply. Order of the locks of a disk
//             (docs/architecture.md, "Concurrency rules", rule 3):
//               1. elevator lock of a RequestQueue   (never two disks' at once)
//               2. software queue lock of a context
//               3. wait lock of a TagMap
//               4. lock of Groups, which all disks share
// Why not std::mutex: with sections of 1 us and four threads on two CPUs it halved the throughput
//             of a model; pure spinning collapses when the holder is preempted.
// See also:   request_queue.hpp, tag_map.hpp.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__clang__)
#define ELEVD_CAPABILITY(x) __attribute__((capability(x)))
#define ELEVD_SCOPED_CAPABILITY __attribute__((scoped_lockable))
#define ELEVD_GUARDED_BY(x) __attribute__((guarded_by(x)))
#define ELEVD_REQUIRES(...) __attribute__((requires_capability(__VA_ARGS__)))
#define ELEVD_ACQUIRE(...) __attribute__((acquire_capability(__VA_ARGS__)))
#define ELEVD_RELEASE(...) __attribute__((release_capability(__VA_ARGS__)))
#define ELEVD_TRY_ACQUIRE(...) __attribute__((try_acquire_capability(__VA_ARGS__)))
#else
#define ELEVD_CAPABILITY(x)
#define ELEVD_SCOPED_CAPABILITY
#define ELEVD_GUARDED_BY(x)
#define ELEVD_REQUIRES(...)
#define ELEVD_ACQUIRE(...)
#define ELEVD_RELEASE(...)
#define ELEVD_TRY_ACQUIRE(...)
#endif

namespace elevd::sched {

/// Tells the CPU that this is a spin loop.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class ELEVD_CAPABILITY("lock") Lock {
 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() ELEVD_ACQUIRE() {
    if (!try_lock()) lock_contended();
  }

  [[nodiscard]] bool try_lock() ELEVD_TRY_ACQUIRE(true) {
    std::uint32_t expected = kFree;
    return word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  void unlock() ELEVD_RELEASE() {
    if (word_.exchange(kFree, std::memory_order_release) == kHeldAndAwaited) word_.notify_one();
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kHeldAndAwaited = 2;

  void lock_contended();  ///< REQUIRES: try_lock() failed

  std::atomic<std::uint32_t> word_{kFree};
};

/// Holds a Lock for a scope.
class ELEVD_SCOPED_CAPABILITY LockGuard {
 public:
  explicit LockGuard(Lock& lock) ELEVD_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() ELEVD_RELEASE() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace elevd::sched
