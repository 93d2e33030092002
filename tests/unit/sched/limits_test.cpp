// SPDX-License-Identifier: Apache-2.0
// Where bios are cut: docs/spec/plug-and-merge.md section 7.
#include "sched/limits.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "bench.hpp"

using namespace elevd::sched;
using elevd::sched::test::Bench;

namespace {

/// Lengths of all pieces of a bio.
std::string pieces(const Limits& limits, Op op, std::uint64_t start, std::uint64_t length) {
  std::vector<std::string> all;
  Sector at{start};
  Sectors left{length};
  while (left.value != 0 && all.size() < 100) {
    const Sectors piece = first_piece(limits, op, at, left);
    all.push_back(std::to_string(piece.value));
    at += piece;
    left -= piece;
  }
  return elevd::sched::test::join(all, " ");
}

Limits with(void (*change)(Limits&)) {
  Limits limits;
  change(limits);
  return limits;
}

}  // namespace

TEST_SUITE("limits") {
  TEST_CASE("defaults are those of the measured loop device") {
    const Limits limits;
    CHECK(limits.max_sectors == Sectors{2560});
    CHECK(limits.max_segments == 128);
    CHECK(limits.max_segment_size == Bytes{65536});
    CHECK(limits.write_back);
    CHECK_FALSE(limits.fua);
  }

  TEST_CASE("reads and writes are cut") {
    struct Row {
      const char* what;
      Limits limits;
      std::uint64_t start, length;
      std::string pieces;
    };
    const Row rows[] = {
        {"within the limit", with([](Limits& l) { l.max_sectors = Sectors{256}; }), 0, 256, "256"},
        {"one sector more", with([](Limits& l) { l.max_sectors = Sectors{256}; }), 0, 257, "256 1"},
        {"1 MiB by 128 KiB", with([](Limits& l) { l.max_sectors = Sectors{256}; }), 8, 2048,
         "256 256 256 256 256 256 256 256"},
        {"the end goes down to a physical block", with([](Limits& l) {
           l.physical_block = Bytes{4096};
           l.max_sectors = Sectors{256};
         }),
         3, 600, "253 256 91"},
        {"a limit that is no multiple of it", with([](Limits& l) {
           l.physical_block = Bytes{4096};
           l.max_sectors = Sectors{20};
         }),
         0, 40, "16 16 8"},
        {"less than a physical block left: logical blocks", with([](Limits& l) {
           l.physical_block = Bytes{4096};
           l.max_sectors = Sectors{7};
         }),
         0, 16, "7 1 7 1"},
        {"logical blocks of 4 KiB", with([](Limits& l) {
           l.logical_block = Bytes{4096};
           l.physical_block = Bytes{16384};
           l.max_sectors = Sectors{20};
         }),
         8, 48, "16 8 16 8"},
        {"chunk boundaries", with([](Limits& l) { l.chunk = Sectors{128}; }), 100, 300,
         "28 128 128 16"},
        {"a chunk larger than the limit", with([](Limits& l) {
           l.chunk = Sectors{512};
           l.max_sectors = Sectors{256};
         }),
         300, 600, "212 256 132"},
        {"few small segments", with([](Limits& l) {
           l.max_segments = 4;
           l.max_segment_size = Bytes{4096};
         }),
         0, 80, "32 32 16"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      CHECK(pieces(row.limits, Op::write, row.start, row.length) == row.pieces);
      CHECK(pieces(row.limits, Op::read, row.start, row.length) == row.pieces);
    }
  }

  TEST_CASE("discards are cut at the granularity") {
    struct Row {
      const char* what;
      std::uint64_t granularity_sectors, most, start, length;
      std::string pieces;
    };
    const Row rows[] = {
        {"start 1, granularity 8", 8, 8, 1, 24, "7 8 8 1"},
        {"the limit is rounded down to it", 8, 21, 0, 40, "16 16 8"},
        {"both", 8, 21, 3, 40, "13 16 11"},
        {"within the limit nothing is cut", 8, 64, 3, 60, "60"},
        {"a limit below the granularity", 64, 16, 0, 40, "16 16 8"},
        {"no granularity", 0, 16, 3, 40, "16 16 8"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      Limits limits;
      limits.discard_granularity = Bytes{row.granularity_sectors * 512};
      limits.max_discard = Sectors{row.most};
      limits.max_sectors = Sectors{4};  // is not theirs
      CHECK(pieces(limits, Op::discard, row.start, row.length) == row.pieces);
    }
  }

  TEST_CASE("write zeroes have a limit of their own") {
    Limits limits;
    limits.max_write_zeroes = Sectors{100};
    limits.max_sectors = Sectors{8};
    CHECK(pieces(limits, Op::write_zeroes, 5, 250) == "100 100 50");
    limits.logical_block = Bytes{4096};
    CHECK(pieces(limits, Op::write_zeroes, 8, 256) == "96 96 64");
    limits.max_write_zeroes = Sectors{5};
    CHECK(pieces(limits, Op::write_zeroes, 8, 16) == "8 8");
  }

  TEST_CASE("cut anywhere, the pieces cover the bio once and never are empty") {
    std::uint64_t state = 20240601;
    auto next = [&state](std::uint64_t below) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return (state >> 33U) % below;
    };
    for (unsigned round = 0; round < 3000; ++round) {
      Limits limits;
      limits.logical_block = Bytes{512U << next(4)};
      limits.physical_block = Bytes{limits.logical_block.value << next(3)};
      const std::uint64_t block = limits.logical_block.value / 512;
      limits.max_sectors = Sectors{(1 + next(64)) * block};
      if (next(2) == 0) limits.chunk = Sectors{block << next(5)};
      limits.discard_granularity = limits.physical_block;
      limits.max_discard = Sectors{(1 + next(64)) * block};
      limits.max_write_zeroes = Sectors{1 + next(64 * block)};
      const Op op = std::array{Op::discard, Op::write_zeroes, Op::write}[next(3)];
      Sector at{next(1000) * block};
      const Sectors length{(1 + next(200)) * block};
      const Sector end = at + length;
      CAPTURE(round);
      while (at < end) {
        const Sectors piece = first_piece(limits, op, at, end - at);
        REQUIRE(piece.value != 0);
        REQUIRE(piece <= end - at);
        REQUIRE(piece.value % block == 0);
        if (op == Op::write) REQUIRE(piece <= max_request_sectors(limits, op, at));
        if (op == Op::discard) REQUIRE(piece <= limits.max_discard);
        at += piece;
      }
    }
  }

  TEST_CASE("segments of a bio") {
    const Limits limits;
    CHECK(segments(limits, Op::write, Sectors{1}) == 1);
    CHECK(segments(limits, Op::write, Sectors{128}) == 1);
    CHECK(segments(limits, Op::write, Sectors{129}) == 2);
    CHECK(segments(limits, Op::read, Sectors{2560}) == 20);
    CHECK(segments(limits, Op::discard, Sectors{100000}) == 1);
    CHECK(segments(limits, Op::write_zeroes, Sectors{100000}) == 1);
  }

  TEST_CASE("admission") {
    struct Row {
      const char* bio;
      int answer;
      const char* issued;
    };
    Limits limits;
    limits.logical_block = Bytes{4096};
    limits.physical_block = Bytes{4096};
    limits.max_discard = Sectors{0};
    limits.max_write_zeroes = Sectors{0};
    const Row rows[] = {
        {"R8+8", 0, "R8+8"}, {"R4+8", 5, ""}, {"W8+4", 5, ""}, {"D8+8", 95, ""},
        {"Z8+8", 95, ""},    {"D4+8", 5, ""}, {"R8+0", 0, ""}, {"F", 0, "F"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.bio);
      Bench bench({.limits = limits});
      auto& bio = bench.burst(row.bio);
      bench.complete_all();
      bench.settle();
      CHECK(bio.answers == 1);
      CHECK(bio.answer == row.answer);
      CHECK(bench.issued() == row.issued);
      CHECK(bench.queue().inside() == 0);
    }
  }
}
