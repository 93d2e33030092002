// SPDX-License-Identifier: Apache-2.0
// The worked examples of docs/spec/mq-deadline.md section 14, through a whole queue.
#include <doctest/doctest.h>

#include <ostream>
#include <string>

#include "mq_deadline_bench.hpp"

using elevd::sched::test::MqDeadlineBench;

namespace {

struct Example {
  int number;
  std::string_view settings;
  std::string_view steps;
  std::string_view dispatched;
};

/// A device that is deep enough to take everything.
constexpr Example kDeep[] = {
    {1, "", "R500 R100 R300 R200 R400", "R100 R200 R300 R400 R500"},
    {2, "", "W500 R100 W300 R200 W400 R900", "W300 W400 W500 R100 R200 R900"},
    {3, "", "R16 R32 R48 | W500 R100 W300 R200 W400 R900",
     "R16 R32 R48 R100 R200 R900 W300 W400 W500"},
    {4, "", "R400 R500 R600 | R550 R100 R700 R50", "R400 R500 R600 R700 R550 R100 R50"},
    {5, "fifo_batch=2", "R100 R200 R300 R400 R500 R600 R700 R800 W150 W250 W350",
     "W150 W250 R100 R200 R300 R400 W350 R500 R600 R700 R800"},
    {6, "fifo_batch=1 writes_starved=1", "R100 R200 R300 R400 W150 W250 W350 W450",
     "W150 R100 W250 R200 W350 R300 W450 R400"},
    {7, "fifo_batch=1 writes_starved=2", "R100 R200 R300 R400 R500 R600 W150 W250 W350 W450",
     "W150 R100 R200 W250 R300 R400 W350 R500 R600 W450"},
    {8, "fifo_batch=1 writes_starved=0", "R100 R200 R300 R400 W150 W250 W350 W450",
     "W150 W250 W350 W450 R100 R200 R300 R400"},
    {9, "fifo_batch=1 writes_starved=-1", "R100 R200 R300 R400 W150 W250 W350 W450",
     "W150 R100 R200 R300 R400 W250 W350 W450"},
    {10, "fifo_batch=0", "R100 R200 W150 W250 R300", "R100 R200 W150 R300 W250"},
    {11, "read_expire=0 fifo_batch=1", "R500 R100 R300 R200 R400", "R500 R100 R300 R200 R400"},
    {12, "read_expire=0 fifo_batch=2", "R500 R100 R300 R200 R400 R600",
     "R500 R600 R100 R200 R300 R400"},
    {13, "read_expire=0", "R500 R100 R300 R200 R400", "R500 R100 R200 R300 R400"},
    {14, "write_expire=0 fifo_batch=2", "W500 W100 W300 W200 W400 W600",
     "W100 W200 W500 W600 W300 W400"},
    {17, "", "R500 R100/RT W300/ID R200 W400/RT R900/ID W700 |",
     "W400/RT R100/RT R200 R500 W700 W300/ID R900/ID"},
    {18, "prio_aging_expire=0", "R500 R100/RT R200 R700/RT R900/ID |",
     "R200 R500 R900/ID R100/RT R700/RT"},
    {22, "", "R100 R300 R100+16 W100 R100", "W100 R100 R100+16 R100 R300"},
    {27, "", "W1000 W1016 W5000 W1008", "W1000+16 W1016 W5000"},
    {28, "", "W1008 W5000 W1000", "W1000 W1008 W5000"},
    {32, "", "quiesce R5000/head ; R6000/head ; W1 R1/RT unquiesce |", "R6000 R5000 R1/RT W1"},
};

/// Four hardware tags.
constexpr Example kShallow[] = {
    {15, "fifo_batch=3 read_expire=100",
     "R9000 R1000 R8000 R2000 R7000 R3000 R6000 R4000 R5000 R500 @400 *",
     "R500 R1000 R2000 R3000 R4000 R5000 R9000 R8000 R7000 R6000"},
    {16, "fifo_batch=16 read_expire=100",
     "R9000 R1000 R8000 R2000 R7000 R3000 R6000 R4000 R5000 R500 @400 *",
     "R500 R1000 R2000 R3000 R4000 R5000 R6000 R7000 R8000 R9000"},
    {19, "prio_aging_expire=400",
     "R20000 R21000 R1000/RT R2000/RT R3000/RT R4000/RT R5000/RT R6000/RT R7000/RT R22000/ID "
     "@200 ! @610 *",
     "R1000/RT R2000/RT R3000/RT R4000/RT R5000/RT R6000/RT R20000 R21000 R22000/ID R7000/RT"},
    {20, "prio_aging_expire=300",
     "R1000/RT R2000/RT R3000/RT R4000/RT R5000/RT R6000/RT R7000/RT R8000/RT R9000/RT R10000/RT "
     "R9500 @400 R100 @550 *",
     "R1000/RT R2000/RT R3000/RT R4000/RT R5000/RT R6000/RT R7000/RT R8000/RT R9000/RT R10000/RT "
     "R100 R9500"},
    {20, "prio_aging_expire=300",
     "R1000/RT R2000/RT R3000/RT R4000/RT R5000/RT R6000/RT R7000/RT R8000/RT R9000/RT R10000/RT "
     "R9500 @550 *",
     "R1000/RT R2000/RT R3000/RT R4000/RT R5000/RT R9500 R6000/RT R7000/RT R8000/RT R9000/RT "
     "R10000/RT"},
    {21, "", "R1000 R2000 R3000 R4000 R5000 R6000 ; R4500 R5500 R100 ; *",
     "R1000 R2000 R3000 R4000 R5000 R5500 R6000 R4500 R100"},
};

/// Four at the device, one on the residual list, before the first step.
constexpr std::string_view kStalled = "R60000 R60100 R60200 R60300 R60400 ; ";
constexpr std::string_view kStalledFirst = "R60000 R60100 R60200 R60300 R60400";
constexpr Example kSaturated[] = {
    {23, "", "W1000 ; W1008 ; *", "W1000+16"},
    {24, "", "W1008 ; W1000 ; *", "W1000+16"},
    {24, "front_merges=0", "W1008 ; W1000 ; *", "W1000+16"},
    {25, "front_merges=0", "W5000 ; W1008 ; W1000 ; *", "W1000 W1008 W5000"},
    {25, "", "W5000 ; W1008 ; W1000 ; *", "W1000+16 W5000"},
    {26, "", "W1000 ; W1016 ; W1008 ; *", "W1000+24"},
    {29, "nomerges=1", "W5000 ; W1000 ; W1008 ; *", "W1000 W1008 W5000"},
    {30, "", "W1000/BE0 ; W1008/RT ; *", "W1008/RT W1000"},
    {30, "", "W1000/BE0 ; W1008/BE4 ; *", "W1000 W1008"},
    {31, "write_expire=0 fifo_batch=1", "W1016 ; W100 ; W1000 ; W1008 ; *", "W1000+24 W100"},
};

}  // namespace

TEST_SUITE("mq-deadline examples") {
  TEST_CASE("a deep device") {
    for (const Example& example : kDeep) {
      CAPTURE(example.number);
      MqDeadlineBench deadline;
      deadline.set(example.settings);
      deadline.play(example.steps);
      CHECK(deadline.dispatched == std::string(example.dispatched) + " ");
    }
  }

  TEST_CASE("four hardware tags") {
    for (const Example& example : kShallow) {
      CAPTURE(example.number);
      MqDeadlineBench deadline({.depth = 4});
      deadline.set(example.settings);
      deadline.play(example.steps);
      CHECK(deadline.dispatched == std::string(example.dispatched) + " ");
    }
  }

  /// Also with every try-lock failing: what the bio merge skips is made up for at insertion, with
  /// the same result.
  TEST_CASE("a saturated device") {
    for (const bool contended : {false, true}) {
      for (const Example& example : kSaturated) {
        CAPTURE(example.number);
        CAPTURE(contended);
        MqDeadlineBench deadline({.depth = 4});
        deadline.set(example.settings);
        deadline.bench.queue().contend_bio_merges(contended);
        deadline.play(std::string(kStalled) + std::string(example.steps));
        CHECK(deadline.dispatched ==
              std::string(kStalledFirst) + " " + std::string(example.dispatched) + " ");
        CHECK((deadline.bench.stats().merge_skips != 0) == contended);
      }
    }
  }
}
