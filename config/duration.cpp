// SPDX-License-Identifier: Apache-2.0
#include "config/duration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>

#include "config/text.hpp"

namespace elevd::config {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t nanoseconds;
};

constexpr std::array<Unit, 6> kUnits = {{{"h", 3'600'000'000'000},
                                         {"m", 60'000'000'000},
                                         {"s", 1'000'000'000},
                                         {"ms", 1'000'000},
                                         {"us", 1'000},
                                         {"ns", 1}}};

constexpr std::int64_t kLongest = std::numeric_limits<std::int64_t>::max();

bool is_digit(char character) { return character >= '0' && character <= '9'; }

std::string_view take_digits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const auto digits = text.substr(0, static_cast<std::size_t>(std::distance(text.begin(), end)));
  text.remove_prefix(digits.size());
  return digits;
}

// whole.fraction units in nanoseconds; empty: too long, or parts of a nanosecond.
std::optional<std::int64_t> scaled(std::string_view whole, std::string_view fraction,
                                   std::int64_t unit) {
  std::int64_t value = 0;
  for (const char digit : whole) {
    const std::int64_t more = digit - '0';
    if (value > (kLongest - more) / 10) return std::nullopt;
    value = value * 10 + more;
  }
  if (value > kLongest / unit) return std::nullopt;
  value *= unit;
  for (const char digit : fraction) {
    if (unit % 10 != 0) return std::nullopt;
    unit /= 10;
    const std::int64_t part = (digit - '0') * unit;
    if (value > kLongest - part) return std::nullopt;
    value += part;
  }
  return value;
}

}  // namespace

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  std::string_view rest = text;
  const std::string_view whole = take_digits(rest);
  std::string_view fraction;
  bool formed = !whole.empty();
  if (formed && rest.starts_with('.')) {
    rest.remove_prefix(1);
    fraction = take_digits(rest);
    formed = !fraction.empty();
  }
  if (rest.empty()) rest = "s";
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(),
                                 [&](const Unit& candidate) { return candidate.name == rest; });
  if (!formed || unit == kUnits.end()) {
    return tl::unexpected(Error{EINVAL, fmt::format("{} is not a duration, expected a number with "
                                                    "ns, us, ms, s, m or h (without one: seconds)",
                                                    quote(text))});
  }
  // Trailing zeroes say nothing; the rest must be whole nanoseconds.
  while (fraction.ends_with('0')) fraction.remove_suffix(1);
  const auto value = scaled(whole, fraction, unit->nanoseconds);
  if (!value) {
    return tl::unexpected(
        Error{EINVAL, fmt::format("{} does not fit, expected whole nanoseconds and at most {}s",
                                  quote(text), kLongest / 1'000'000'000)});
  }
  return std::chrono::nanoseconds(*value);
}

std::string format_duration(std::chrono::nanoseconds span) {
  const std::int64_t count = span.count();
  if (count == 0) return "0s";
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& candidate) {
    return count % candidate.nanoseconds == 0;
  });
  return fmt::format("{}{}", count / unit->nanoseconds, unit->name);
}

}  // namespace elevd::config
