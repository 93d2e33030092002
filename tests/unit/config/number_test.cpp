// SPDX-License-Identifier: Apache-2.0
#include "config/number.hpp"

#include <doctest/doctest.h>

#include <string>

using elevd::config::parse_number;

TEST_SUITE("number") {
  TEST_CASE("digits within the range are a number") {
    CHECK(parse_number("1", 1, 64).value() == 1);
    CHECK(parse_number("64", 1, 64).value() == 64);
    CHECK(parse_number("007", 1, 64).value() == 7);
    CHECK(parse_number("18446744073709551615", 0, ~std::uint64_t{0}).value() == ~std::uint64_t{0});
  }

  TEST_CASE("everything else is refused and says what is expected") {
    for (const std::string text :
         {"", "0", "65", "-1", "+1", " 1", "1 ", "1x", "0x10", "1.0", "18446744073709551616"}) {
      CAPTURE(text);
      const auto result = parse_number(text, 1, 64);
      REQUIRE_FALSE(result.has_value());
      CHECK(result.error().code == EINVAL);
      CHECK(result.error().what ==
            "'" + text + "' is not valid, expected a whole number from 1 to 64");
    }
  }
}
