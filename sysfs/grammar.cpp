// SPDX-License-Identifier: Apache-2.0
#include "grammar.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>

namespace elevd::sysfs {
namespace {

constexpr unsigned kNoDigit = 99;

unsigned digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return kNoDigit;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Digits of `base` and at most one newline, the whole of `text`. A number that is too large is
/// ERANGE whatever follows it.
Parsed<std::uint64_t> parse_digits(std::string_view text, unsigned base) {
  std::uint64_t value = 0;
  std::size_t n = 0;
  for (; n < text.size() && digit(text[n]) < base; ++n) {
    if (__builtin_mul_overflow(value, base, &value) ||
        __builtin_add_overflow(value, digit(text[n]), &value)) {
      return tl::unexpected(ERANGE);
    }
  }
  if (n == 0) return tl::unexpected(EINVAL);
  text.remove_prefix(n);
  if (!text.empty() && text != "\n") return tl::unexpected(EINVAL);
  return value;
}

/// Takes the sign off; true: negative.
bool take_sign(std::string_view& text) {
  if (text.empty() || (text.front() != '-' && text.front() != '+')) return false;
  const bool negative = text.front() == '-';
  text.remove_prefix(1);
  return negative;
}

/// Takes a base prefix off and returns the base. The leading 0 of an octal number is a digit.
unsigned take_base(std::string_view& text) {
  if (text.empty() || text.front() != '0') return 10;
  const bool hex =
      text.size() > 2 && (text[1] == 'x' || text[1] == 'X') && digit(text[2]) != kNoDigit;
  if (!hex) return 8;
  text.remove_prefix(2);
  return 16;
}

Parsed<std::int64_t> parse_signed_digits(std::string_view text, unsigned base, bool negative) {
  const auto magnitude = parse_digits(text, base);
  if (!magnitude) return tl::unexpected(magnitude.error());
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (*magnitude > most + (negative ? 1 : 0)) return tl::unexpected(ERANGE);
  return static_cast<std::int64_t>(negative ? 0 - *magnitude : *magnitude);
}

}  // namespace

Parsed<std::uint64_t> parse_u64(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return parse_digits(text, 10);
}

Parsed<std::uint32_t> parse_u32(std::string_view text) {
  const auto value = parse_u64(text);
  if (!value || *value > std::numeric_limits<std::uint32_t>::max()) return tl::unexpected(EINVAL);
  return static_cast<std::uint32_t>(*value);
}

Parsed<std::int32_t> parse_int0(std::string_view text, std::int32_t low, std::int32_t high) {
  const bool negative = take_sign(text);
  const unsigned base = take_base(text);
  const auto value = parse_signed_digits(text, base, negative);
  if (!value) return tl::unexpected(value.error());
  if (*value != static_cast<std::int32_t>(*value)) return tl::unexpected(ERANGE);
  return std::clamp(static_cast<std::int32_t>(*value), low, high);
}

Parsed<std::uint64_t> parse_ulc(std::string_view text, std::uint64_t low, std::uint64_t high) {
  const auto value = parse_u64(text);
  if (!value) return value;
  return std::clamp(*value, low, high);
}

Parsed<std::int64_t> parse_s64(std::string_view text) {
  const bool negative = take_sign(text);
  return parse_signed_digits(text, 10, negative);
}

Parsed<bool> parse_bool(std::string_view text) {
  const auto value = parse_u32(text);
  if (!value) return tl::unexpected(value.error());
  return *value != 0;
}

std::string_view parse_name(std::string_view text) {
  text = text.substr(0, kNameBytes);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

Parsed<std::size_t> parse_prefix(std::string_view text,
                                 std::span<const std::string_view> keywords) {
  for (std::size_t i = 0; i < keywords.size(); ++i) {
    if (text.starts_with(keywords[i])) return i;
  }
  return tl::unexpected(EINVAL);
}

}  // namespace elevd::sysfs
