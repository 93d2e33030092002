// SPDX-License-Identifier: Apache-2.0
#include "config/number.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <system_error>

#include "config/text.hpp"

namespace elevd::config {

Result<std::uint64_t> parse_number(std::string_view text, std::uint64_t low, std::uint64_t high) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc{} || stop != end || value < low || value > high) {
    return tl::unexpected(
        Error{EINVAL, fmt::format("{} is not valid, expected a whole number from {} to {}",
                                  quote(text), low, high)});
  }
  return value;
}

}  // namespace elevd::config
