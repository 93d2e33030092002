// SPDX-License-Identifier: Apache-2.0
// Low latency and the peak rate of bfq: worked examples E10 to E12 and E15 of docs/spec/bfq.md
// section 20, and sections 9, 10 and 14.
#include <doctest/doctest.h>

#include "bfq_bench.hpp"

using namespace elevd::sched;
using namespace elevd::sched::literals;
using elevd::sched::test::BfqBench;

namespace {

void low_latency(BfqBench& bench, bool on) {
  bench.tune([on](BfqTunables& tunables) { tunables.low_latency = on; });
}

/// `count` sequential requests of 256 sectors, each served and completed at once.
void stream(BfqBench& bench, std::uint64_t& place, unsigned count, std::uint64_t step = 256) {
  for (unsigned n = 0; n < count; ++n) {
    bench.add({.start = place, .length = 256});
    place += step;
    while (bench.dispatch() == nullptr) bench.advance_us(1000);
    bench.complete_all();
  }
}

/// Whether an issuer that wants `count` requests each `ms` is raised as a soft real-time one.
bool soft_real_time(unsigned count, std::int64_t ms, std::uint64_t step) {
  BfqBench bench(true);
  std::uint64_t place = 0;
  for (unsigned n = 0; n < 14; ++n) {
    if (n == 10) low_latency(bench, true);
    stream(bench, place, count, step);
    if (n == 13) return bench.queue(1).raise == 3000;
    bench.advance_us(ms * 1000);
  }
  return false;
}

}  // namespace

TEST_SUITE("bfq low latency") {
  TEST_CASE("E10: how long an interactive issuer is raised") {
    CHECK(BfqRate(true).interactive_time() == 10500_ms);
    CHECK(BfqRate(false).interactive_time() == 3750_ms);
    BfqRate rate(true);
    rate.set_peak((255ULL * 1'000'000 / 512 << 16U) / 1'000'000);
    CHECK(rate.interactive_time() == 3002_ms);
    rate.set_peak((256ULL * 1'000'000 / 512 << 16U) / 1'000'000);
    CHECK(rate.interactive_time() == 3000_ms);
    rate.set_peak(1);
    CHECK(rate.interactive_time() == 25000_ms);
  }

  TEST_CASE("E11: a fresh issuer is raised for 120000 sectors") {
    BfqBench bench;
    low_latency(bench, true);
    std::uint64_t place = 0;
    bench.add({.start = 1'000'000'000, .length = 256});
    CHECK(bench.queue(1).weight == 1200);
    CHECK(bench.elevator.raised_busy() == 1);
    REQUIRE(bench.dispatch() != nullptr);
    bench.complete_all();
    unsigned dispatches = 1;
    for (; bench.queue(1).raise == 30; ++dispatches) stream(bench, place, 1);
    CHECK(dispatches == 469);
    CHECK(bench.queue(1).weight == 40);
    CHECK(bench.elevator.raised_busy() == 0);
  }

  TEST_CASE("raising ends when its time is over, and with the tunable") {
    BfqBench bench;
    low_latency(bench, true);
    std::uint64_t place = 0;
    stream(bench, place, 1);
    CHECK(bench.queue(1).raise == 30);
    SUBCASE("time") {
      for (unsigned n = 0; n < 3760; ++n) {
        bench.advance_us(1000);
        stream(bench, place, n % 30 == 0 ? 1 : 0);
      }
      stream(bench, place, 1);
      CHECK(bench.queue(1).raise == 1);
    }
    SUBCASE("tunable") {
      low_latency(bench, false);
      CHECK(bench.queue(1).raise == 1);
      CHECK(bench.elevator.raised_busy() == 0);
    }
  }

  TEST_CASE("who chose a priority, and who waits for nothing, is not raised") {
    BfqBench bench;
    low_latency(bench, true);
    bench.add({.issuer = 1, .priority = IoPriority::best_effort(0)});
    CHECK(bench.queue(1).weight == 80);
    bench.add({.issuer = 2, .op = Op::write, .sync = false});
    CHECK(bench.elevator.async_queue({}).weight == 40);
  }

  TEST_CASE("E12: at most 7000 sectors a second, not at random") {
    CHECK(soft_real_time(5, 200, 256));
    CHECK(!soft_real_time(5, 150, 256));
    CHECK(!soft_real_time(5, 200, 100'000));
  }

  TEST_CASE("what a soft real-time issuer has to wait for its turn does not count") {
    BfqBench bench(true);
    std::uint64_t place = 0;
    for (unsigned n = 0; n < 13; ++n) {
      if (n == 10) low_latency(bench, true);
      stream(bench, place, 5);
      bench.advance_us(200'000);
    }
    bench.add({.issuer = 9, .start = 90'000'000, .priority = IoPriority::real_time(4)});
    REQUIRE(bench.dispatch_issuer() == 9);
    bench.add({.issuer = 1, .start = place, .length = 256});
    REQUIRE(bench.queue(1).raise == 3000);
    const Instant from = bench.queue(1).raise_start;
    REQUIRE(from == bench.now);
    bench.advance_us(50'000);
    bench.complete_all();
    while (bench.dispatch_issuer() != 1) bench.advance_us(1000);
    CHECK(bench.queue(1).raise_start == bench.now);
    CHECK(bench.now >= from + 50_ms);
  }

  TEST_CASE("a raised one is waited for 20 ms") {
    BfqBench bench;
    low_latency(bench, true);
    bench.add({});
    REQUIRE(bench.queue(1).raise == 30);
    REQUIRE(bench.dispatch() != nullptr);
    bench.complete_all();
    bench.advance_us(19'999);
    static_cast<void>(bench.dispatch());
    CHECK(bench.elevator.waiting());
    bench.advance_us(1);
    static_cast<void>(bench.dispatch());
    CHECK(!bench.elevator.waiting());
  }

  TEST_CASE("the eighth of a burst of new issuers ends the raising of all") {
    BfqBench bench;
    low_latency(bench, true);
    for (std::uint64_t issuer = 1; issuer <= 10; ++issuer) {
      bench.add({.issuer = issuer, .start = issuer * 10'000});
      bench.add({.issuer = issuer, .start = issuer * 10'000 + 8});
      CHECK(bench.queue(issuer).raise == (issuer < 8 ? 30 : 1));
      bench.advance_us(100'000);
    }
    CHECK(bench.queue(1).in_burst);
    CHECK(bench.queue(9).in_burst);
    for (unsigned n = 0; n < 20; ++n) {
      while (bench.dispatch() == nullptr) bench.advance_us(1000);
      bench.complete_all();
    }
    CHECK(bench.queue(3).raise == 1);
    bench.advance_us(200'000);
    bench.add({.issuer = 11});
    CHECK(bench.queue(11).raise == 30);
  }

  TEST_CASE("depth while somebody is raised") {
    BfqBench bench;
    low_latency(bench, true);
    Bio sync_write;
    sync_write.op = Op::write;
    sync_write.flags = kBioSync;
    Bio async;
    async.op = Op::write;
    bench.add({});
    REQUIRE(bench.elevator.raised_busy() == 1);
    const struct {
      std::uint32_t n, sync_write, async;
    } rows[] = {{256, 96, 48}, {64, 24, 12}, {4, 1, 1}};
    for (const auto& row : rows) {
      static_cast<void>(bench.elevator.depth_updated(row.n, row.n * 3 / 4));
      CHECK(bench.elevator.limit(sync_write).shallow == row.sync_write);
      CHECK(bench.elevator.limit(async).shallow == row.async);
    }
  }

  TEST_CASE("E15: the largest budget is what the device moves in the time of a slot") {
    BfqRate rate(false);
    rate.set_peak(55127);
    CHECK(rate.sectors_in_ms(124) == 104305);
    BfqBench bench;
    bench.elevator.rate().set_peak(55127);
    CHECK(bench.elevator.max_budget() == 16384);
    for (std::uint64_t n = 0; n < 11; ++n) {
      CHECK(bench.elevator.max_budget() == 16384);
      bench.add({.issuer = 1 + n % 2, .start = n * 8});
      while (bench.dispatch() == nullptr) bench.advance_us(8000);
      bench.complete_all();
      bench.advance_us(30'000);
      static_cast<void>(bench.dispatch());
    }
    CHECK(bench.elevator.max_budget() == 104305);
    bench.tune([](BfqTunables& tunables) { tunables.max_budget = 2048; });
    CHECK(bench.elevator.max_budget() == 2048);
  }

  TEST_CASE("a rate counts if three quarters of its requests were sequential") {
    for (const unsigned sequential : {74U, 76U}) {
      CAPTURE(sequential);
      BfqRate rate(true);
      Instant now{10'000'000'000};
      for (unsigned n = 0; n < 600; ++n) {
        rate.dispatched({8}, n % 100 >= sequential, 1, now);
        now.ns += 2'000'000;
        rate.completed(now);
      }
      CHECK((rate.peak() == 9333) == (sequential == 74));
    }
  }

  TEST_CASE("the rate is measured over a second of sequential work, and moves by parts") {
    Instant now{10'000'000'000};
    const auto run = [&now](BfqRate& rate, bool far, std::int64_t us) {
      now.ns += 1'000'000'000;
      rate.dispatched({256}, far, 0, now);
      for (std::int64_t at = 0; at <= 1'100'000; at += us) {
        rate.dispatched({256}, far, 1, now);
        now.ns += us * 1000;
        rate.completed(now);
      }
    };
    BfqRate rate(true);
    CHECK(rate.peak() == 9333);
    run(rate, false, 1000);  // 256 sectors in 1000 us: 16777
    CHECK(rate.peak() > 12000);
    CHECK(rate.peak() <= (9333 + 16800) / 2);
    const std::uint64_t before = rate.peak();
    run(rate, true, 4000);  // slower, but not sequential
    CHECK(rate.peak() == before);
    run(rate, false, 2000);
    CHECK(rate.peak() < before);
    const std::uint64_t slow = rate.peak();
    run(rate, false, 40'000);  // too few
    CHECK(rate.peak() == slow);
    run(rate, false, 10);  // more than a device does: 256 / 10 us
    CHECK(rate.peak() == slow);
  }
}
