// SPDX-License-Identifier: Apache-2.0
// BfqRate: what bfq thinks the device can do at its best.
//
// Owns:       plain values.
// Thread:     under the elevator lock.
// Time:       an argument.
// Invariants: the rate is never 0; one interval moves it by at most half of the difference.
// See also:   docs/spec/bfq.md section 10.
#pragma once

#include <cstdint>

#include "units.hpp"

namespace elevd::sched {

class BfqRate {
 public:
  /// Begins with two thirds of what a usual device of that kind does.
  explicit BfqRate(bool rotational)
      : rotational_(rotational), peak_(reference(rotational) * 2 / 3) {}

  /// `in_driver`: requests there before this one; `far`: it is not near the one before.
  void dispatched(Sectors length, bool far, std::uint32_t in_driver, Instant now);
  void completed(Instant now);

  /// Sectors a microsecond, times 2^16.
  [[nodiscard]] std::uint64_t peak() const { return peak_; }
  void set_peak(std::uint64_t peak) { peak_ = peak; }  ///< for tests
  /// Sectors it moves in a time.
  [[nodiscard]] std::uint64_t sectors_in_ms(std::uint64_t ms) const {
    return (peak_ * 1000 * ms) >> 16U;
  }
  /// How long an interactive issuer needs to load an application: 3 to 25 s.
  [[nodiscard]] Duration interactive_time() const;

 private:
  /// 109 and 258 MB/s.
  [[nodiscard]] static constexpr std::uint64_t reference(bool rotational) {
    return rotational ? 14000 : 33000;
  }
  void begin(Sectors length, Instant now);
  void close();

  bool rotational_;
  std::uint64_t peak_;
  std::uint32_t samples_ = 0;  ///< 0: no interval is open
  std::uint32_t sequential_ = 0;
  std::uint64_t sectors_ = 0;
  std::uint64_t largest_ = 0;  ///< sectors of a request, lately
  Instant first_;
  Instant last_dispatch_;
  Instant last_completion_;
};

}  // namespace elevd::sched
