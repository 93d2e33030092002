// SPDX-License-Identifier: Apache-2.0
#include "sysfs/grammar.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <limits>
#include <ostream>

namespace elevd::sysfs {
namespace {

constexpr std::int32_t kIntMax = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kIntMin = std::numeric_limits<std::int32_t>::min();

/// The value, or minus the errno.
template <class T>
long double outcome(const Parsed<T>& parsed) {
  return parsed ? static_cast<long double>(*parsed) : -static_cast<long double>(parsed.error());
}

struct GrammarRow {
  std::string_view text;
  long double expected;
};

TEST_SUITE("grammar") {
  TEST_CASE("U32 takes plain decimal numbers and refuses all else with EINVAL") {
    for (const GrammarRow& row : {
             GrammarRow{"0", 0},
             {"64", 64},
             {"64\n", 64},
             {"+64", 64},
             {"007", 7},
             {"010", 10},
             {"4294967295", 4294967295.0L},
             {"", -EINVAL},
             {"\n", -EINVAL},
             {"+", -EINVAL},
             {" 8", -EINVAL},
             {"8 ", -EINVAL},
             {"-0", -EINVAL},
             {"-1", -EINVAL},
             {"+-1", -EINVAL},
             {"++1", -EINVAL},
             {"0x10", -EINVAL},
             {"8\r\n", -EINVAL},
             {"8\n\n", -EINVAL},
             {"12x", -EINVAL},
             {"abc", -EINVAL},
             {"4294967296", -EINVAL},
             {"99999999999999999999", -EINVAL},
         }) {
      CAPTURE(row.text);
      CHECK(outcome(parse_u32(row.text)) == row.expected);
    }
  }

  TEST_CASE("INT0 takes sign and base prefix, and is ERANGE outside of 32 bits") {
    for (const GrammarRow& row : {
             GrammarRow{"500", 500},
             {"-5\n", -5},
             {"+5", 5},
             {"-0", 0},
             {"0", 0},
             {"0x1F", 31},
             {"0XfF", 255},
             {"-0x10", -16},
             {"010", 8},
             {"2147483647", kIntMax},
             {"-2147483648", kIntMin},
             {"2147483648", -ERANGE},
             {"-2147483649", -ERANGE},
             {"99999999999999999999", -ERANGE},
             {"9223372036854775808", -ERANGE},
             {"08", -EINVAL},
             {"0x", -EINVAL},
             {"0xg", -EINVAL},
             {"", -EINVAL},
             {"\n", -EINVAL},
             {"-", -EINVAL},
             {"+-5", -EINVAL},
             {" 5", -EINVAL},
             {"5 ", -EINVAL},
             {"5\n\n", -EINVAL},
             {"5\r\n", -EINVAL},
             {"5x", -EINVAL},
         }) {
      CAPTURE(row.text);
      CHECK(outcome(parse_int0(row.text, kIntMin, kIntMax)) == row.expected);
    }
  }

  TEST_CASE("INT0 clamps to the range of the attribute") {
    CHECK(outcome(parse_int0("2", 0, 1)) == 1);
    CHECK(outcome(parse_int0("-5", 0, 1)) == 0);
    CHECK(outcome(parse_int0("1", 0, 1)) == 1);
  }

  TEST_CASE("U64 is ERANGE above its range") {
    CHECK(outcome(parse_u64("2000000\n")) == 2000000);
    CHECK(outcome(parse_u64("0")) == 0);
    CHECK(parse_u64("18446744073709551615") == std::numeric_limits<std::uint64_t>::max());
    CHECK(outcome(parse_u64("18446744073709551616")) == -ERANGE);
    CHECK(outcome(parse_u64("-1")) == -EINVAL);
    CHECK(outcome(parse_u64("")) == -EINVAL);
    CHECK(outcome(parse_u64("1 ")) == -EINVAL);
  }

  TEST_CASE("ULC clamps") {
    CHECK(outcome(parse_ulc("0", 1, 100)) == 1);
    CHECK(outcome(parse_ulc("99999999999", 0, kIntMax)) == kIntMax);
    CHECK(outcome(parse_ulc("18446744073709551616", 0, 1)) == -ERANGE);
    CHECK(outcome(parse_ulc("-1", 0, 1)) == -EINVAL);
  }

  TEST_CASE("S64 takes a sign and decimal digits") {
    CHECK(outcome(parse_s64("-1\n")) == -1);
    CHECK(outcome(parse_s64("+2000")) == 2000);
    CHECK(outcome(parse_s64("010")) == 10);
    CHECK(parse_s64("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
    CHECK(outcome(parse_s64("9223372036854775808")) == -ERANGE);
    CHECK(outcome(parse_s64("-9223372036854775809")) == -ERANGE);
    CHECK(outcome(parse_s64("0x1")) == -EINVAL);
    CHECK(outcome(parse_s64("")) == -EINVAL);
  }

  TEST_CASE("BOOL takes any number, and all but 0 is true") {
    CHECK(outcome(parse_bool("0")) == 0);
    CHECK(outcome(parse_bool("1\n")) == 1);
    CHECK(outcome(parse_bool("77")) == 1);
    CHECK(outcome(parse_bool("-1")) == -EINVAL);
    CHECK(outcome(parse_bool("y")) == -EINVAL);
    CHECK(outcome(parse_bool("")) == -EINVAL);
  }

  TEST_CASE("NAME looks at 15 bytes and strips white space") {
    CHECK(parse_name(" \tkyber\v\f\r\n\n") == "kyber");
    CHECK(parse_name("kyber           bfq") == "kyber");
    CHECK(parse_name("                kyber") == "");
    CHECK(parse_name("     mq-deadline") == "mq-deadlin");
    CHECK(parse_name("mq-deadline kyber") == "mq-deadline kyb");
    CHECK(parse_name("\n") == "");
  }

  TEST_CASE("PREFIX wants the text to begin with a keyword") {
    constexpr std::string_view keywords[] = {"write back", "write through", "none"};
    CHECK(outcome(parse_prefix("write back\n", keywords)) == 0);
    CHECK(outcome(parse_prefix("write backxyz", keywords)) == 0);
    CHECK(outcome(parse_prefix("write through ", keywords)) == 1);
    CHECK(outcome(parse_prefix("noneX", keywords)) == 2);
    CHECK(outcome(parse_prefix("write  back", keywords)) == -EINVAL);
    CHECK(outcome(parse_prefix("writeback", keywords)) == -EINVAL);
    CHECK(outcome(parse_prefix("1", keywords)) == -EINVAL);
    CHECK(outcome(parse_prefix("", keywords)) == -EINVAL);
  }
}

}  // namespace
}  // namespace elevd::sysfs
