// SPDX-License-Identifier: Apache-2.0
// What stat and inflight show: docs/spec/sysfs.md section 7, docs/spec/plug-and-merge.md section 9.
#include "sched/stats.hpp"

#include <doctest/doctest.h>

#include "bench.hpp"
#include "fifo_elevator.hpp"

using namespace elevd::sched;
using namespace elevd::sched::literals;
using elevd::sched::test::Bench;
using elevd::sched::test::FifoElevator;

namespace {

Stats::Group group(const Stats& stats, StatGroup which) {
  return stats.groups[static_cast<unsigned>(which)];
}

}  // namespace

TEST_SUITE("stats") {
  TEST_CASE("an 0.8 s read, while it is under way and afterwards") {
    Bench bench;
    bench.burst("R1000");
    bench.advance(400_ms);
    Stats stats = bench.stats();
    CHECK(stats.in_flight == 1);
    CHECK(stats.at_driver[0] == 1);
    CHECK(stats.at_driver[1] == 0);
    CHECK(group(stats, StatGroup::read).ios == 0);
    CHECK(stats.io_ticks_ms == 400);
    bench.advance(400_ms);
    bench.complete();
    stats = bench.stats();
    CHECK(stats.in_flight == 0);
    CHECK(stats.at_driver[0] == 0);
    CHECK(group(stats, StatGroup::read).ios == 1);
    CHECK(group(stats, StatGroup::read).sectors == 8);
    CHECK(group(stats, StatGroup::read).ticks_ms == 800);
    CHECK(stats.io_ticks_ms == 800);
    bench.advance(5_s);
    CHECK(bench.stats().io_ticks_ms == 800);
  }

  TEST_CASE("io_ticks is the time with something in flight, however much") {
    Bench bench;
    bench.advance(100_ms);  // idle
    bench.burst("R1000");
    bench.advance(10_ms);
    bench.burst("W2000");
    bench.advance(10_ms);
    bench.complete();
    bench.advance(10_ms);
    bench.complete();
    bench.advance(50_ms);  // idle
    bench.burst("R3000");
    bench.advance(5_ms);
    bench.complete();
    const Stats stats = bench.stats();
    CHECK(stats.io_ticks_ms == 35);
    CHECK(group(stats, StatGroup::read).ticks_ms == 25);
    CHECK(group(stats, StatGroup::write).ticks_ms == 20);
  }

  TEST_CASE("a worker whose clock is behind the one that allocated takes no time off") {
    Bench bench({.workers = 2});
    bench.burst("R1000 W2000 F");
    bench.worker(1).now = bench.now() + Duration{-1'000'000};
    while (!bench.held.empty()) {
      bench.complete(0, 1);
      bench.settle();
    }
    const Stats stats = bench.stats();
    CHECK(group(stats, StatGroup::read).ticks_ms == 0);
    CHECK(group(stats, StatGroup::write).ticks_ms == 0);
    CHECK(group(stats, StatGroup::flush).ticks_ms == 0);
  }

  TEST_CASE("times below a millisecond add up in the ticks") {
    Bench bench;
    for (unsigned n = 0; n < 10; ++n) {
      bench.burst("R1000");
      bench.advance(500_us);
      bench.complete();
    }
    CHECK(group(bench.stats(), StatGroup::read).ticks_ms == 5);
  }

  TEST_CASE("three reads of which two join: 2 I/Os, 1 merge, 24 sectors") {
    Bench bench;
    bench.burst("R0 R8 R200");
    CHECK(bench.stats().in_flight == 2);
    CHECK(group(bench.stats(), StatGroup::read).merges == 1);
    bench.drain();
    const auto reads = group(bench.stats(), StatGroup::read);
    CHECK(reads.ios == 2);
    CHECK(reads.merges == 1);
    CHECK(reads.sectors == 24);
  }

  TEST_CASE("what each event adds") {
    struct Row {
      const char* bios;
      StatGroup group;
      std::uint64_t ios, merges, sectors;
    };
    const Row rows[] = {
        {"R0", StatGroup::read, 1, 0, 8},          {"R8 R0", StatGroup::read, 1, 1, 16},
        {"W0 W8 W16", StatGroup::write, 1, 2, 24}, {"Z0+1000", StatGroup::write, 1, 0, 1000},
        {"Z0 Z8", StatGroup::write, 2, 0, 16},     {"D0+64 D64+64", StatGroup::discard, 1, 1, 128},
        {"W0+5120", StatGroup::write, 2, 0, 5120},  // cut: each piece is a request
        {"R0 W8", StatGroup::read, 1, 0, 8},       {"R4/IDLE R12/RT", StatGroup::read, 2, 0, 16},
    };
    for (const Row& row : rows) {
      CAPTURE(row.bios);
      Bench bench;
      bench.burst(row.bios);
      bench.drain();
      const Stats stats = bench.stats();
      CHECK(group(stats, row.group).ios == row.ios);
      CHECK(group(stats, row.group).merges == row.merges);
      CHECK(group(stats, row.group).sectors == row.sectors);
      CHECK(group(stats, StatGroup::flush).ios == 0);
      CHECK(stats.in_flight == 0);
    }
  }

  TEST_CASE("a request that disappears by merging: merges + 1, in flight - 1") {
    FifoElevator::Options fifo;
    fifo.merges = true;
    fifo.hold = true;
    Bench bench({.elevator = [&] { return std::make_unique<FifoElevator>(fifo); }});
    bench.submit("R0 R1000 R8");
    CHECK(bench.stats().in_flight == 3);
    bench.flush_plug();
    Stats stats = bench.stats();
    CHECK(stats.in_flight == 2);
    CHECK(group(stats, StatGroup::read).merges == 1);
    CHECK(stats.merge_hits[static_cast<unsigned>(MergePoint::insert)] == 1);
    fifo.hold = false;
    bench.queue().run(bench.worker());
    bench.drain();
    stats = bench.stats();
    CHECK(group(stats, StatGroup::read).ios == 2);
    CHECK(group(stats, StatGroup::read).sectors == 24);
    CHECK(stats.in_flight == 0);
  }

  TEST_CASE("in flight counts what is in a plug or parked for the device, at_driver does not") {
    Bench bench;
    bench.driver().slots = 1;
    bench.submit("R0 W100 W200");
    CHECK(bench.stats().in_flight == 3);
    CHECK(bench.stats().at_driver[0] + bench.stats().at_driver[1] == 0);
    bench.flush_plug();
    CHECK(bench.stats().in_flight == 3);
    CHECK(bench.stats().at_driver[0] == 1);
    CHECK(bench.stats().at_driver[1] == 0);
  }

  TEST_CASE("a refused request is not at the driver") {
    Bench bench;
    bench.driver().refuse = 1000;
    bench.burst("R0 W100");
    CHECK(bench.stats().at_driver[0] + bench.stats().at_driver[1] == 0);
    bench.lift_refusals();
    bench.settle();
    CHECK(bench.stats().at_driver[0] == 1);
    CHECK(bench.stats().at_driver[1] == 1);
  }

  TEST_CASE("a failed request counts like any other") {
    Bench bench;
    bench.burst("W0");
    bench.complete(5);
    CHECK(group(bench.stats(), StatGroup::write).ios == 1);
    CHECK(group(bench.stats(), StatGroup::write).sectors == 8);
  }

  TEST_CASE("iostats off: nothing is counted, also for what is in flight at the change") {
    Bench bench;
    bench.burst("R0");
    bench.queue().set_iostats(false);
    bench.burst("R100 R108 R200");
    bench.advance(10_ms);
    bench.complete_all();
    Stats stats = bench.stats();
    CHECK(group(stats, StatGroup::read).ios == 1);  // began while it was on
    CHECK(group(stats, StatGroup::read).merges == 0);
    CHECK(stats.in_flight == 0);
    bench.burst("R300");
    bench.queue().set_iostats(true);
    bench.complete_all();
    stats = bench.stats();
    CHECK(group(stats, StatGroup::read).ios == 1);
    CHECK(stats.in_flight == 0);
  }

  TEST_CASE("sums go over all workers, also when another one completes") {
    Bench bench({.workers = 3});
    bench.burst("R0", 0);
    bench.burst("R100", 1);
    bench.burst("W200", 2);
    CHECK(bench.stats().in_flight == 3);
    bench.complete(0, 2);
    CHECK(bench.stats().in_flight == 2);
    CHECK(bench.stats().at_driver[0] == 1);
    bench.complete(0, 0);
    bench.complete(0, 1);
    const Stats stats = bench.stats();
    CHECK(stats.in_flight == 0);
    CHECK(group(stats, StatGroup::read).ios == 2);
    CHECK(group(stats, StatGroup::write).ios == 1);
  }

  TEST_CASE("merge attempts and hits per merge point") {
    Bench bench;
    bench.burst("R0 R8 R100");
    const Stats stats = bench.stats();
    CHECK(stats.merge_attempts[static_cast<unsigned>(MergePoint::plug)] == 2);
    CHECK(stats.merge_hits[static_cast<unsigned>(MergePoint::plug)] == 1);
    CHECK(stats.merge_hits[static_cast<unsigned>(MergePoint::software_queue)] == 0);
  }
}
