// SPDX-License-Identifier: Apache-2.0
// Random: a small generator, one per thread, so that a seed gives every thread the same choices.
//
// Owns:       its state.
// Thread:     the one that owns it.
// Invariants: the same seed and stream give the same sequence on every machine.
#pragma once

#include <cstdint>

namespace elevd::torture {

class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream)
      : state_(seed * 0x9e3779b97f4a7c15U + stream * 0xd1342543de82ef95U + 1) {}

  std::uint64_t next() {  // splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  /// 0 .. n-1. REQUIRES: n != 0.
  unsigned below(unsigned n) { return static_cast<unsigned>((next() >> 32U) % n); }
  /// from .. to, both included.
  unsigned between(unsigned from, unsigned to) { return from + below(to - from + 1); }
  /// True in `percent` of 100 cases.
  bool percent(unsigned percent) { return below(100) < percent; }
  /// True once in `n` cases.
  bool one_in(unsigned n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace elevd::torture
