// SPDX-License-Identifier: Apache-2.0
// BfqAdmission: who holds as many requests as its share allows, for those who ask without a lock
// before they take a tag.
//
// Owns:       a fixed table of keys, mostly empty.
// Thread:     set under the elevator lock, has by any thread.
// Time:       none.
// Invariants: a key is in at most one place; one that finds no place is not noted: its issuer gets
//             more than its share for a while, nobody gets less.
// See also:   docs/spec/bfq.md section 14; bfq.hpp, Bfq::limit.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace elevd::sched {

class BfqAdmission {
 public:
  /// Not 0.
  using Key = std::uint64_t;

  [[nodiscard]] bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool has(Key key) const { return find(key) != kNone; }

  void set(Key key, bool on) {
    const unsigned at = find(key);
    if (on == (at != kNone)) return;
    if (!on) {
      keys_[at].store(0, std::memory_order_relaxed);
      count_.fetch_sub(1, std::memory_order_relaxed);
      return;
    }
    const unsigned free = find(0, first(key));
    if (free == kNone) return;
    keys_[free].store(key, std::memory_order_relaxed);
    count_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned kBits = 8;
  static constexpr unsigned kPlaces = 1U << kBits;
  static constexpr unsigned kProbes = 8;
  static constexpr unsigned kNone = kPlaces;

  [[nodiscard]] static unsigned first(Key key) {
    constexpr std::uint64_t kGolden = 0x61c8864680b583ebU;
    return static_cast<unsigned>((key * kGolden) >> (64U - kBits));
  }
  [[nodiscard]] unsigned find(Key key) const { return find(key, first(key)); }
  [[nodiscard]] unsigned find(Key key, unsigned from) const {
    for (unsigned n = 0; n < kProbes; ++n) {
      const unsigned at = (from + n) % kPlaces;
      if (keys_[at].load(std::memory_order_relaxed) == key) return at;
    }
    return kNone;
  }

  std::array<std::atomic<Key>, kPlaces> keys_{};
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace elevd::sched
