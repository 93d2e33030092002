// SPDX-License-Identifier: Apache-2.0
#include "config/duration.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

using elevd::config::format_duration;
using elevd::config::parse_duration;

namespace {

struct DurationRow {
  std::string_view text;
  std::int64_t nanoseconds;
};

}  // namespace

TEST_SUITE("duration") {
  TEST_CASE("a duration is a number and at most one unit") {
    for (const DurationRow& row : {DurationRow{"30s", 30'000'000'000},
                                   {"30", 30'000'000'000},
                                   {"0", 0},
                                   {"0ns", 0},
                                   {"300us", 300'000},
                                   {"3ms", 3'000'000},
                                   {"100ns", 100},
                                   {"2m", 120'000'000'000},
                                   {"1h", 3'600'000'000'000},
                                   {"0.5ms", 500'000},
                                   {"1.5", 1'500'000'000},
                                   {"1.5000000000000s", 1'500'000'000},
                                   {"0.000000001s", 1},
                                   {"1.0ns", 1},
                                   {"0.05m", 3'000'000'000},
                                   {"9223372036s", 9'223'372'036'000'000'000},
                                   {"9223372036854775807ns", 9'223'372'036'854'775'807}}) {
      CAPTURE(row.text);
      const auto span = parse_duration(row.text);
      REQUIRE(span.has_value());
      CHECK(span->count() == row.nanoseconds);
    }
  }

  TEST_CASE("what is no duration is refused") {
    for (const std::string text : {"", "s", "-1s", "+1s", "1 s", " 1s", "1s ", "1.s", ".5s",
                                   "1.5.5s", "1S", "1min", "1e3", "0x1", "3 ms", "1sm"}) {
      CAPTURE(text);
      const auto result = parse_duration(text);
      REQUIRE_FALSE(result.has_value());
      CHECK(result.error().code == EINVAL);
      CHECK(result.error().what == "'" + text +
                                       "' is not a duration, expected a number with ns, us, ms, s, "
                                       "m or h (without one: seconds)");
    }
  }

  TEST_CASE("too long and too fine is refused") {
    for (const std::string text : {"9223372037s", "9223372036854775808ns", "99999999999999999999",
                                   "9223372036.9s", "0.5ns", "0.0000000001s", "1.2345us"}) {
      CAPTURE(text);
      const auto result = parse_duration(text);
      REQUIRE_FALSE(result.has_value());
      CHECK(result.error().what ==
            "'" + text + "' does not fit, expected whole nanoseconds and at most 9223372036s");
    }
  }

  TEST_CASE("a duration is shown in the largest unit that leaves it whole") {
    for (const DurationRow& row : {DurationRow{"0s", 0},
                                   {"1ns", 1},
                                   {"300us", 300'000},
                                   {"1500ms", 1'500'000'000},
                                   {"30s", 30'000'000'000},
                                   {"2m", 120'000'000'000},
                                   {"24h", 86'400'000'000'000}}) {
      CAPTURE(row.nanoseconds);
      CHECK(format_duration(std::chrono::nanoseconds(row.nanoseconds)) == row.text);
    }
  }
}
