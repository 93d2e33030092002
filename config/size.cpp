// SPDX-License-Identifier: Apache-2.0
#include "config/size.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <limits>
#include <optional>
#include <system_error>

#include "config/text.hpp"

namespace elevd::config {
namespace {

constexpr std::string_view kSuffixes = "KMGT";

char upper(char letter) {
  return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
}

// How many binary digits the unit shifts by; empty: not a unit.
std::optional<unsigned> unit_shift(std::string_view unit) {
  if (unit.empty()) return 0;
  const std::size_t power = kSuffixes.find(upper(unit.front()));
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view rest = unit.substr(1);
  const bool binary = rest.size() == 2 && upper(rest[0]) == 'I' && upper(rest[1]) == 'B';
  if (!rest.empty() && !binary) return std::nullopt;
  return static_cast<unsigned>(power + 1) * 10;
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, number);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  const auto shift = unit_shift(unit);
  if (code == std::errc::invalid_argument || !shift) {
    return tl::unexpected(
        Error{EINVAL, fmt::format("{} is not a size, expected a whole number of bytes or one with "
                                  "K, M, G or T (powers of 1024)",
                                  quote(text))});
  }
  if (code != std::errc{} || number > (std::numeric_limits<std::uint64_t>::max() >> *shift)) {
    return tl::unexpected(
        Error{EINVAL, fmt::format("{} is too large, expected less than 16777216T", quote(text))});
  }
  return number << *shift;
}

std::string format_size(std::uint64_t bytes) {
  unsigned shift = 0;
  std::size_t unit = 0;
  while (unit < kSuffixes.size() && (bytes >> (shift + 10)) != 0) {
    shift += 10;
    ++unit;
  }
  if (unit == 0) return fmt::format("{}", bytes);
  std::uint64_t whole = bytes >> shift;
  const std::uint64_t rest = bytes & ((std::uint64_t{1} << shift) - 1);
  if (rest == 0) return fmt::format("{}{}", whole, kSuffixes[unit - 1]);
  // rest < 2^40, so ten times it fits.
  std::uint64_t tenths = (rest * 10 + (std::uint64_t{1} << (shift - 1))) >> shift;
  if (tenths == 10) {
    tenths = 0;
    ++whole;
  }
  if (whole == 1024 && unit < kSuffixes.size()) {
    whole = 1;
    ++unit;
  }
  return fmt::format("{}.{}{}", whole, tenths, kSuffixes[unit - 1]);
}

}  // namespace elevd::config
