// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/result.hpp"

// Size: a number of bytes as people write it.
//
// Owns:       nothing.
// Thread:     any; pure functions.
// Time:       none.
// Invariants: every unit is a power of 1024; KB and its like, which mean 1000 elsewhere, are
// refused. See also:   docs/spec/scenario.md section 1 (SIZE).
namespace elevd::config {

// Bytes of "4096", "4K", "512M", "1GiB", "1t": digits, then nothing or K, M, G, T, each also with
// "iB", in either case. 0 is a size. Error: EINVAL, for a wrong form and for more than 2^64-1
// bytes.
Result<std::uint64_t> parse_size(std::string_view text);

// The size in the largest unit that leaves at least 1: "512", "4K", "1.5G". One decimal, rounded,
// where it is not a whole number; sizes that parse_size read in one unit come out whole.
std::string format_size(std::uint64_t bytes);

}  // namespace elevd::config
