// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "config/result.hpp"

// Duration: a time span as people write it.
//
// Owns:       nothing.
// Thread:     any; pure functions.
// Time:       reads no clock.
// Invariants: never negative; 1 ns is the resolution, and what is finer is refused, not rounded.
// See also:   docs/spec/scenario.md section 1 (DURATION).
namespace elevd::config {

// "30s", "300us", "0.5ms", "100ns", "2m", "1h"; a bare number is seconds.
// Error: EINVAL, for a wrong form, for parts of a nanosecond and for more than 2^63-1 ns.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

// In the largest unit that leaves a whole number: "30s", "300us", "1500ms", "0s".
// REQUIRES: span >= 0.
std::string format_duration(std::chrono::nanoseconds span);

}  // namespace elevd::config
