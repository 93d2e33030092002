// SPDX-License-Identifier: Apache-2.0
// The tag bitmap: docs/spec/tags-and-depth.md section 3.
#include "sched/sbitmap.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <vector>

using namespace elevd::sched;

namespace {

std::vector<int> take(Sbitmap& map, unsigned n, unsigned worker = 0,
                      std::uint32_t shallow = Sbitmap::kUnlimited) {
  std::vector<int> taken;
  for (unsigned i = 0; i < n; ++i) taken.push_back(map.get(worker, shallow));
  return taken;
}

using Numbers = std::vector<int>;

}  // namespace

TEST_SUITE("sbitmap") {
  TEST_CASE("word size and number of words") {
    struct Row {
      std::uint32_t depth, bits, words;
    };
    const Row rows[] = {
        {256, 64, 4}, {128, 32, 4}, {64, 16, 4},  {16, 4, 4},   {2048, 64, 32}, {10240, 64, 160},
        {1, 64, 1},   {3, 64, 1},   {4, 1, 4},    {5, 1, 5},    {31, 4, 8},     {32, 8, 4},
        {40, 8, 5},   {63, 8, 8},   {100, 16, 7}, {255, 32, 8}, {257, 64, 5},
    };
    for (const Row& row : rows) {
      CAPTURE(row.depth);
      const Sbitmap map(row.depth, row.depth, 1);
      CHECK((1U << Sbitmap::shift_for(row.depth)) == row.bits);
      CHECK(map.bits_per_word() == row.bits);
      CHECK(map.word_count() == row.words);
    }
  }

  TEST_CASE("a resize changes depth and number of words, not the word size") {
    Sbitmap map(128, 128, 1);
    map.set_depth(40);
    CHECK(map.depth() == 40);
    CHECK(map.word_count() == 2);
    CHECK(map.bits_per_word() == 32);
    std::set<int> all;
    for (unsigned n = 0; n < 40; ++n) all.insert(map.get(0));
    CHECK(all.size() == 40);
    CHECK(*all.rbegin() == 39);
    CHECK(map.get(0) == -1);
    for (const int bit : all) map.put(static_cast<std::uint32_t>(bit), 0);
    map.set_depth(128);
    CHECK(map.word_count() == 4);
    for (unsigned n = 0; n < 128; ++n) CHECK(map.get(0) >= 0);
    CHECK(map.get(0) == -1);
    CHECK(map.busy() == 128);
  }

  TEST_CASE("every bit is given once, for every depth") {
    for (std::uint32_t depth = 1; depth <= 300; ++depth) {
      CAPTURE(depth);
      Sbitmap map(depth, depth, 1);
      std::set<int> all;
      for (std::uint32_t n = 0; n < depth; ++n) all.insert(map.get(0));
      REQUIRE(all.size() == depth);
      REQUIRE(*all.begin() == 0);
      REQUIRE(map.get(0) == -1);
      map.put(depth / 2, 0);
      REQUIRE(map.get(0) == static_cast<int>(depth / 2));
    }
  }

  TEST_CASE("the hint: after a hit it advances by one, after a failure it is 0") {
    Sbitmap map(16, 16, 1);
    CHECK(map.hint(0) == 0);
    CHECK(map.get(0) == 0);
    CHECK(map.hint(0) == 1);
    CHECK(map.get(0) == 1);
    CHECK(map.hint(0) == 2);
    CHECK(take(map, 14).back() == 15);
    CHECK(map.hint(0) == 0);
    map.put(9, 0);
    CHECK(map.hint(0) == 9);
    CHECK(map.get(0) == 9);
    CHECK(map.hint(0) == 10);
    CHECK(map.get(0) == -1);
    CHECK(map.hint(0) == 0);
  }

  TEST_CASE("a normal search begins at bit 0 of the hint's word, not at the hint") {
    Sbitmap map(16, 16, 1);  // words of 4
    take(map, 16);
    for (const unsigned bit : {4U, 5U, 6U, 7U}) map.put(bit, 0);
    CHECK(map.hint(0) == 7);
    CHECK(map.get(0) == 4);
    CHECK(map.hint(0) == 7);  // no hit: it stays
  }

  TEST_CASE("a search with a limit begins at the hint, then looks before it") {
    Sbitmap map(16, 16, 1);
    take(map, 16);
    for (const unsigned bit : {8U, 9U, 10U}) map.put(bit, 0);
    CHECK(map.hint(0) == 10);
    CHECK(map.get(0, 12) == 10);  // 3 positions of each word
    CHECK(map.get(0, 12) == 8);
    CHECK(map.get(0, 12) == 9);
    CHECK(map.get(0, 12) == -1);
  }

  TEST_CASE("freeing sets the hint of who allocated it") {
    Sbitmap map(16, 16, 2);
    take(map, 4, 0);
    take(map, 4, 1);
    map.put(2, 0);
    CHECK(map.hint(0) == 2);
    CHECK(map.hint(1) != 2);
  }

  TEST_CASE("workers go on where they are: different hints, different words") {
    Sbitmap map(64, 64, 2);
    take(map, 20, 0);
    CHECK(map.hint(0) == 20);
    CHECK(map.hint(1) == 0);
    CHECK(map.get(1) == 20);  // its hint's word is full
  }

  TEST_CASE("freed bits stay in the cleared mask until their word is found full") {
    Sbitmap map(16, 16, 1);
    CHECK(take(map, 3) == Numbers{0, 1, 2});
    map.put(0, 0);
    map.put(1, 0);
    CHECK(map.cleared() == 2);
    CHECK(map.busy() == 1);
    CHECK_FALSE(map.is_taken(0));
    CHECK(map.is_taken(2));
    CHECK(map.get(0) == 3);  // the word has a bit that was never given
    CHECK(map.cleared() == 2);
    CHECK(map.get(0) == 0);  // full: all cleared bits come back in one step
    CHECK(map.cleared() == 0);
    CHECK(map.get(0) == 1);
  }

  TEST_CASE("round robin: strictly ascending with wrap, whatever was freed") {
    for (const std::uint32_t depth : {4U, 7U, 16U, 40U, 128U}) {
      CAPTURE(depth);
      Sbitmap map(depth, depth, 1);
      map.set_round_robin(true);
      for (std::uint32_t n = 0; n < 3 * depth; ++n) {
        const int bit = map.get(0);
        REQUIRE(bit == static_cast<int>(n % depth));
        map.put(static_cast<std::uint32_t>(bit), 0);
      }
    }
    Sbitmap map(8, 8, 1);
    map.set_round_robin(true);
    take(map, 5);
    for (const unsigned bit : {0U, 1U, 3U}) map.put(bit, 0);
    CHECK(take(map, 7) == Numbers{5, 6, 7, 0, 1, 3, -1});
  }

  TEST_CASE("a batch comes from one word") {
    Sbitmap map(64, 64, 1);  // words of 16
    std::uint32_t base = 99;
    CHECK(map.get_batch(0, 4, base) == 0xf);
    CHECK(base == 0);
    CHECK(map.busy() == 4);
    CHECK(map.get_batch(0, 32, base) == 0xfff0);
    CHECK(base == 0);
    CHECK(map.get_batch(0, 32, base) == 0xffff);
    CHECK(base == 16);
    take(map, 32);
    CHECK(map.get_batch(0, 1, base) == 0);
    map.put(33, 0);
    map.put(34, 0);
    map.put(60, 0);
    unsigned got = 0;
    for (std::uint64_t mask = 1; mask != 0;) {
      mask = map.get_batch(0, 3, base);
      got += static_cast<unsigned>(std::popcount(mask));
    }
    CHECK(got == 3);
    CHECK(map.busy() == 64);
  }

  TEST_CASE("no batch with round robin, none of 0") {
    Sbitmap map(64, 64, 1);
    std::uint32_t base = 0;
    CHECK(map.get_batch(0, 0, base) == 0);
    map.set_round_robin(true);
    CHECK(map.get_batch(0, 4, base) == 0);
    CHECK(map.busy() == 0);
  }

  TEST_CASE("a shallow depth allows exactly so many positions, the remainder in the lowest words") {
    for (const std::uint32_t depth : {4U, 5U, 16U, 31U, 40U, 64U, 100U, 128U, 200U, 256U}) {
      for (std::uint32_t shallow = 1; shallow <= depth + 3; ++shallow) {
        CAPTURE(depth);
        CAPTURE(shallow);
        const Sbitmap map(depth, depth, 1);
        std::uint32_t sum = 0;
        for (std::uint32_t i = 0; i < map.word_count(); ++i) {
          const std::uint32_t bits = std::min(map.bits_per_word(), depth - i * map.bits_per_word());
          const std::uint32_t allowed = map.shallow_word_depth(i, shallow);
          REQUIRE(allowed <= bits);
          REQUIRE(allowed >= std::uint64_t{bits} * std::min(shallow, depth) / depth);
          sum += allowed;
        }
        REQUIRE(sum == std::min(shallow, depth));
      }
    }
  }

  TEST_CASE("remainders go to the lowest words") {
    const Sbitmap map(64, 64, 1);
    Numbers per_word;
    for (unsigned i = 0; i < 4; ++i) {
      per_word.push_back(static_cast<int>(map.shallow_word_depth(i, 50)));
    }
    CHECK(per_word == Numbers{13, 13, 12, 12});
  }

  TEST_CASE("a shallow depth restricts positions, not a count") {
    Sbitmap map(16, 16, 1);  // shallow 4: bits 0, 4, 8, 12
    CHECK(map.get(0) == 0);
    CHECK(map.get(0) == 1);
    std::set<int> got;
    for (unsigned n = 0; n < 3; ++n) got.insert(map.get(0, 4));
    CHECK(got == std::set<int>{4, 8, 12});
    CHECK(map.get(0, 4) == -1);  // 0 is taken by somebody unlimited, though 11 bits are free
    CHECK(map.busy() == 5);
    CHECK(map.busy_within(4) == 4);
    map.put(1, 0);
    CHECK(map.get(0, 4) == -1);
    map.put(0, 0);
    CHECK(map.get(0, 4) == 0);
    CHECK(take(map, 12).back() >= 0);
    CHECK(map.get(0) == -1);
  }

  TEST_CASE("a smaller limit's positions are among those of a larger one") {
    for (const std::uint32_t depth : {40U, 63U, 64U, 100U, 128U}) {
      const Sbitmap map(depth, depth, 1);
      for (std::uint32_t shallow = 1; shallow < depth; ++shallow) {
        for (std::uint32_t i = 0; i < map.word_count(); ++i) {
          CAPTURE(depth);
          CAPTURE(shallow);
          REQUIRE(map.shallow_word_depth(i, shallow) <= map.shallow_word_depth(i, shallow + 1));
        }
      }
    }
  }
}
