// SPDX-License-Identifier: Apache-2.0
#include "config/text.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>

using elevd::config::joined;
using elevd::config::nearest;
using elevd::config::quote;
using elevd::config::suggestion;

namespace {

constexpr std::array<std::string_view, 4> kWords = {"scheduler", "nr_requests", "read_only",
                                                    "iosched/fifo_batch"};

}  // namespace

TEST_SUITE("text") {
  TEST_CASE("quoted text is one line") {
    CHECK(quote("a b") == "'a b'");
    CHECK(quote("") == "''");
    CHECK(quote("a\nb\t\x7f") == "'a\\x0ab\\x09\\x7f'");
    CHECK(quote(std::string_view("a\0b", 3)) == "'a\\x00b'");
    CHECK(quote("\xc3\xa4") == "'\xc3\xa4'");
  }

  TEST_CASE("words are joined by commas") {
    CHECK(joined(kWords) == "scheduler, nr_requests, read_only, iosched/fifo_batch");
    CHECK(joined({}).empty());
  }

  TEST_CASE("the nearest word is a typing error away") {
    struct Row {
      std::string_view word;
      std::string_view found;
    };
    for (const Row& row : {Row{"schedular", "scheduler"},
                           {"shceduler", "scheduler"},
                           {"sched", ""},
                           {"nr_request", "nr_requests"},
                           {"nrrequests", "nr_requests"},
                           {"readonly", "read_only"},
                           {"fifo_batch", "iosched/fifo_batch"},
                           {"batch", ""},
                           {"", ""},
                           {"x", ""}}) {
      CAPTURE(row.word);
      CHECK(nearest(row.word, kWords) == row.found);
    }
    CHECK(nearest("scheduler", {}).empty());
    CHECK(nearest(std::string(100000, 'a'), kWords).empty());
  }

  TEST_CASE("of equally near words the first is taken") {
    constexpr std::array<std::string_view, 2> kPair = {"fast1", "fast2"};
    CHECK(nearest("fast3", kPair) == "fast1");
  }

  TEST_CASE("a suggestion names the nearest or all") {
    CHECK(suggestion("schedulr", kWords) == ", did you mean scheduler?");
    CHECK(suggestion("zzz", kWords) ==
          ", expected one of scheduler, nr_requests, read_only, iosched/fifo_batch");
    CHECK(suggestion("zzz", {}) == ", expected nothing");
  }
}
