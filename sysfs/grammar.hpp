// SPDX-License-Identifier: Apache-2.0
// Grammar: the text a person writes into an attribute, turned into a value or an errno.
//
// Owns:       nothing.
// Thread:     any; pure functions.
// Time:       none.
// Invariants: the whole text is taken or refused (NAME and PREFIX say what they ignore); `text`
// ends
//             where the first NUL was (file_rules.hpp).
// See also:   docs/spec/sysfs.md section 2, whose names the functions carry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tl/expected.hpp>

namespace elevd::sysfs {

/// A value, or the errno a write(2) fails with.
template <class T>
using Parsed = tl::expected<T, int>;

/// Bytes of a name that are looked at; what follows is ignored.
inline constexpr std::size_t kNameBytes = 15;

/// U32: most numbers of a queue. EINVAL for everything wrong, too large included.
[[nodiscard]] Parsed<std::uint32_t> parse_u32(std::string_view text);

/// INT0: sign, and base by prefix (0x, 0). The value is clamped to [low, high]. EINVAL; ERANGE
/// outside of 32 bits.
[[nodiscard]] Parsed<std::int32_t> parse_int0(std::string_view text, std::int32_t low,
                                              std::int32_t high);

/// U64. EINVAL; ERANGE above 2^64 - 1.
[[nodiscard]] Parsed<std::uint64_t> parse_u64(std::string_view text);

/// ULC: the value is clamped to [low, high]. EINVAL; ERANGE above 2^64 - 1.
[[nodiscard]] Parsed<std::uint64_t> parse_ulc(std::string_view text, std::uint64_t low,
                                              std::uint64_t high);

/// S64: sign, decimal. EINVAL; ERANGE outside of 64 bits.
[[nodiscard]] Parsed<std::int64_t> parse_s64(std::string_view text);

/// BOOL: U32, and anything but 0 is true. EINVAL.
[[nodiscard]] Parsed<bool> parse_bool(std::string_view text);

/// NAME: the first kNameBytes bytes, white space around them taken off. Never fails; may be empty.
[[nodiscard]] std::string_view parse_name(std::string_view text);

/// PREFIX: the index of the first keyword that `text` begins with. EINVAL.
[[nodiscard]] Parsed<std::size_t> parse_prefix(std::string_view text,
                                               std::span<const std::string_view> keywords);

}  // namespace elevd::sysfs
