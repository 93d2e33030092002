// SPDX-License-Identifier: Apache-2.0
#include "config/size.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

using elevd::config::format_size;
using elevd::config::parse_size;

namespace {

constexpr std::uint64_t kKibi = 1024;
constexpr std::uint64_t kMebi = kKibi * 1024;
constexpr std::uint64_t kGibi = kMebi * 1024;
constexpr std::uint64_t kTebi = kGibi * 1024;
constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();

struct SizeRow {
  std::string_view text;
  std::uint64_t bytes;
};

}  // namespace

TEST_SUITE("size") {
  TEST_CASE("a size is digits and at most one unit") {
    for (const SizeRow& row : {SizeRow{"0", 0},
                               {"4096", 4096},
                               {"1K", kKibi},
                               {"4k", 4 * kKibi},
                               {"4KiB", 4 * kKibi},
                               {"512M", 512 * kMebi},
                               {"512mib", 512 * kMebi},
                               {"1GiB", kGibi},
                               {"1g", kGibi},
                               {"1T", kTebi},
                               {"2TiB", 2 * kTebi},
                               {"16777215T", 16777215 * kTebi},
                               {"18446744073709551615", kLargest}}) {
      CAPTURE(row.text);
      CHECK(parse_size(row.text).value() == row.bytes);
    }
  }

  TEST_CASE("what is no size is refused") {
    for (const std::string text : {"", "K", "-1", "+1", "1KB", "1B", "1 K", " 1K", "1K ", "1.5G",
                                   "0x10", "1Ki", "1P", "12X", "1KiBx", "one"}) {
      CAPTURE(text);
      const auto result = parse_size(text);
      REQUIRE_FALSE(result.has_value());
      CHECK(result.error().code == EINVAL);
      CHECK(result.error().what == "'" + text +
                                       "' is not a size, expected a whole number of bytes or one "
                                       "with K, M, G or T (powers of 1024)");
    }
  }

  TEST_CASE("what does not fit 64 bits is refused") {
    for (const std::string text :
         {"18446744073709551616", "16777216T", "99999999999999999999K", "18014398509481984K"}) {
      CAPTURE(text);
      const auto result = parse_size(text);
      REQUIRE_FALSE(result.has_value());
      CHECK(result.error().what == "'" + text + "' is too large, expected less than 16777216T");
    }
  }

  TEST_CASE("a size is shown in its largest unit with one decimal where needed") {
    for (const SizeRow& row : {SizeRow{"0", 0},
                               {"512", 512},
                               {"1023", 1023},
                               {"1K", kKibi},
                               {"1.5K", 1536},
                               {"256M", 256 * kMebi},
                               {"1G", kGibi},
                               {"1.0G", kGibi + 1},
                               {"1.4G", 1500000000},
                               {"1T", kTebi},
                               {"3000T", 3000 * kTebi},
                               {"16777216.0T", kLargest},
                               {"1.0G", kGibi - 1},
                               {"1.0M", kMebi - 1}}) {
      CAPTURE(row.bytes);
      CHECK(format_size(row.bytes) == row.text);
    }
  }

  TEST_CASE("a whole size survives being shown and read again") {
    for (const std::string_view text : {"1023", "1K", "512M", "3G", "7T"}) {
      CAPTURE(text);
      CHECK(format_size(parse_size(text).value()) == text);
    }
  }
}
