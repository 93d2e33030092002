// SPDX-License-Identifier: Apache-2.0
#include "daemon/range_table.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <random>
#include <vector>

namespace elevd::daemon {
namespace {

RangeHold& ask(RangeHold& hold, std::uint64_t from, std::uint64_t to) {
  hold.from = from;
  hold.to = to;
  return hold;
}

std::vector<RangeHold*> release(RangeTable& table, RangeHold& hold) {
  std::vector<RangeHold*> granted;
  table.release(hold, [&granted](RangeHold& next) { granted.push_back(&next); });
  return granted;
}

TEST_SUITE("range table") {
  TEST_CASE("ranges that do not overlap go at once, neighbours included") {
    RangeTable table;
    RangeHold a;
    RangeHold b;
    CHECK(table.acquire(ask(a, 0, 4096)));
    CHECK(table.acquire(ask(b, 4096, 8192)));
    CHECK(release(table, a).empty());
    CHECK(release(table, b).empty());
    CHECK(table.empty());
  }

  TEST_CASE("first come, first served: a later one does not pass a waiting one it overlaps") {
    RangeTable table;
    std::array<RangeHold, 4> hold;
    CHECK(table.acquire(ask(hold[0], 0, 4096)));
    CHECK_FALSE(table.acquire(ask(hold[1], 2048, 8192)));
    CHECK_FALSE(table.acquire(ask(hold[2], 6144, 8192)));  // overlaps only the one that waits
    CHECK(table.acquire(ask(hold[3], 8192, 12288)));
    CHECK(release(table, hold[0]) == std::vector{&hold[1]});
    CHECK(release(table, hold[3]).empty());
    CHECK(release(table, hold[1]) == std::vector{&hold[2]});
    CHECK(release(table, hold[2]).empty());
  }

  TEST_CASE("one release lets several go") {
    RangeTable table;
    std::array<RangeHold, 3> hold;
    CHECK(table.acquire(ask(hold[0], 0, 8192)));
    CHECK_FALSE(table.acquire(ask(hold[1], 0, 4096)));
    CHECK_FALSE(table.acquire(ask(hold[2], 4096, 8192)));
    CHECK(release(table, hold[0]) == std::vector{&hold[1], &hold[2]});
    CHECK(release(table, hold[1]).empty());
    CHECK(release(table, hold[2]).empty());
  }

  TEST_CASE("any order of release: granted holds never overlap, and each is granted once") {
    for (const std::uint32_t seed : {1U, 2U, 3U, 4U, 5U}) {
      CAPTURE(seed);
      std::mt19937 random(seed);
      RangeTable table;
      std::array<RangeHold, 64> holds;
      std::vector<RangeHold*> active;
      std::size_t granted = 0;
      const auto grant = [&active, &granted](RangeHold& hold) {
        for (const RangeHold* other : active) CHECK_FALSE(hold.overlaps(*other));
        active.push_back(&hold);
        ++granted;
      };
      for (RangeHold& hold : holds) {
        const std::uint64_t from = random() % 32;
        if (table.acquire(ask(hold, from, from + 1 + random() % 8))) grant(hold);
      }
      while (!active.empty()) {
        const std::size_t index = random() % active.size();
        RangeHold& done = *active[index];
        active.erase(active.begin() + static_cast<std::ptrdiff_t>(index));
        for (RangeHold* next : release(table, done)) grant(*next);
      }
      CHECK(granted == holds.size());
      CHECK(table.empty());
    }
  }
}

}  // namespace
}  // namespace elevd::daemon
