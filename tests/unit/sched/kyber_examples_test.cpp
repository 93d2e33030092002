// SPDX-License-Identifier: Apache-2.0
// The worked examples of docs/spec/kyber.md section 10, 1 to 9, through a whole queue. The others:
// kyber_latency_test.cpp.
#include <doctest/doctest.h>

#include <ostream>
#include <string>

#include "kyber_bench.hpp"

namespace elevd::sched::test::kyber_examples {
namespace {

struct Example {
  int number;
  std::string steps;
  std::string dispatched;
};

std::string reads(unsigned n, unsigned from = 0) {
  return series('R', 1000 + 100 * from, 8, 100, n);
}
std::string writes(unsigned n, unsigned from = 0) {
  return series('W', 100000 + 100 * from, 8, 100, n);
}
/// As KyberBench::dispatched writes what `series` wrote.
std::string short_form(std::string text) {
  for (std::size_t at = 0; (at = text.find("+8", at)) != std::string::npos;) text.erase(at, 2);
  return text;
}

/// 20 reads and 12 writes, mixed.
std::string mixed() {
  std::string text;
  for (unsigned n = 0; n < 12; ++n) text += reads(1, n) + writes(1, n);
  return text + reads(8, 12);
}

const Example kDeep[] = {
    {1, "R900 R100 W500 R800 W50 R700", "R900 R100 R800 R700 W500 W50 "},
    {2, "W500 W100 W300", "W500 W100 W300 "},
    {3, mixed(), short_form(reads(16) + writes(8) + reads(4, 16) + writes(4, 8))},
    {4, reads(5) + "| " + reads(14, 5) + writes(3),
     short_form(reads(5) + reads(11, 5) + writes(3) + reads(3, 16))},
    {9, "W1000 W5000 W1008 W1016", "W1000 W5000 W1008+16 "},
};

/// Four at the device, one on the residual list, before the first step.
constexpr std::string_view kStalled = "R60000 R60100 R60200 R60300 R60400 ; ";
constexpr std::string_view kStalledFirst = "R60000 R60100 R60200 R60300 R60400";
const Example kSaturated[] = {
    {5, "1:W1000 ; W2000 ; 1:W3000 ; W4000 ; *", "W2000 W4000 W1000 W3000"},
    {6, "W1000 ; W1008 ; *", "W1000+16"},
    {6, "W1000 ; 1:W1008 ; *", "W1000 W1008"},
    {7, "W1000 ; W2000 ; W3000 ; W4000 ; W5000 ; W6000 ; W7000 ; W8000 ; W1008 ; *",
     "W1000+16 W2000 W3000 W4000 W5000 W6000 W7000 W8000"},
    {7, "W1000 ; W2000 ; W3000 ; W4000 ; W5000 ; W6000 ; W7000 ; W8000 ; W9000 ; W1008 ; *",
     "W1000 W2000 W3000 W4000 W5000 W6000 W7000 W8000 W9000 W1008"},
    {8, "W1000 ; W1016 ; W1008 ; *", "W1000 W1008+16"},
};

}  // namespace

TEST_SUITE("kyber examples") {
  TEST_CASE("a deep device") {
    for (const Example& example : kDeep) {
      CAPTURE(example.number);
      KyberBench kyber;
      kyber.play(example.steps);
      CHECK(kyber.dispatched == example.dispatched);
    }
  }

  /// Also with every try-lock failing: what the bio merge skips is made up for at insertion, with
  /// the same result.
  TEST_CASE("a saturated device") {
    for (const bool contended : {false, true}) {
      for (const Example& example : kSaturated) {
        CAPTURE(example.number);
        CAPTURE(contended);
        KyberBench kyber({.depth = 4, .workers = 2});
        kyber.bench.queue().contend_bio_merges(contended);
        kyber.play(std::string(kStalled) + example.steps);
        CHECK(kyber.dispatched == std::string(kStalledFirst) + " " + example.dispatched + " ");
        CHECK((kyber.bench.stats().merge_skips != 0) == contended);
      }
    }
  }
}

}  // namespace elevd::sched::test::kyber_examples
