// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "config/result.hpp"

// Number: decimal digits to an unsigned value, the whole text or nothing.
//
// Owns:       nothing.
// Thread:     any; a pure function.
// Time:       none.
// Invariants: no sign, no blank, no other base.
// See also:   size.hpp, duration.hpp.
namespace elevd::config {

// Error: EINVAL, "'x' is not valid, expected a whole number from LOW to HIGH".
Result<std::uint64_t> parse_number(std::string_view text, std::uint64_t low, std::uint64_t high);

}  // namespace elevd::config
