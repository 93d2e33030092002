// SPDX-License-Identifier: Apache-2.0
#include "bfq_rate.hpp"

#include <algorithm>

namespace elevd::sched {
namespace {

constexpr std::int64_t kLongestIntervalNs = 1'000'000'000;
constexpr std::int64_t kShortestIntervalNs = 300'000'000;
constexpr std::int64_t kPauseNs = 100'000'000;
constexpr std::int64_t kGapNs = 2'000'000;
constexpr std::uint32_t kFewestSamples = 32;
constexpr std::uint64_t kSlowRate = 64;  // with requests of the largest size
constexpr std::uint64_t kImpossibleRate = 20U << 16U;

}  // namespace

void BfqRate::begin(Sectors length, Instant now) {
  samples_ = 1;
  sequential_ = 0;
  sectors_ = largest_ = length.value;
  first_ = last_dispatch_ = now;
}

void BfqRate::dispatched(Sectors length, bool far, std::uint32_t in_driver, Instant now) {
  if (samples_ != 0 && (now - last_dispatch_).ns > kPauseNs && in_driver == 0) close();
  if (samples_ == 0) {
    begin(length, now);
    return;
  }
  ++samples_;
  if ((in_driver > 0 || (now - last_completion_).ns < kGapNs) && !far) ++sequential_;
  sectors_ += length.value;
  largest_ = samples_ % 32 == 0 ? length.value : std::max(largest_, length.value);
  last_dispatch_ = now;
  if ((now - first_).ns < kLongestIntervalNs) return;
  close();
  begin(length, now);
}

void BfqRate::completed(Instant now) {
  const std::int64_t us = (now - last_completion_).ns / 1000;
  if (samples_ != 0 && us * 1000 > kGapNs &&
      (largest_ << 16U) / static_cast<std::uint64_t>(us) < kSlowRate) {
    close();
  }
  last_completion_ = now;
}

/// Ends the interval; what it says counts if it was long, busy and sequential enough.
void BfqRate::close() {
  const std::uint32_t samples = samples_;
  samples_ = 0;
  const std::int64_t ns = (std::max(last_dispatch_, last_completion_) - first_).ns;
  if (samples < kFewestSamples || ns < kShortestIntervalNs) return;
  const std::uint64_t rate = (sectors_ << 16U) / static_cast<std::uint64_t>(ns / 1000);
  if ((4 * sequential_ < 3 * samples && rate <= peak_) || rate > kImpossibleRate) return;
  const std::uint64_t by_time = std::uint64_t{9} * sequential_ / samples;
  const std::uint64_t weight =
      std::min<std::uint64_t>(8, by_time * static_cast<std::uint64_t>(ns) / 1'000'000'000);
  const std::uint64_t parts = 10 - weight;
  peak_ = std::max<std::uint64_t>(1, peak_ * (parts - 1) / parts + rate / parts);
}

Duration BfqRate::interactive_time() const {
  const std::uint64_t usual_ms = rotational_ ? 7000 : 2500;
  const std::uint64_t ms = reference(rotational_) * usual_ms / peak_;
  return {static_cast<std::int64_t>(std::clamp<std::uint64_t>(ms, 3000, 25000)) * 1'000'000};
}

}  // namespace elevd::sched
