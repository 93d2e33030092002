// SPDX-License-Identifier: Apache-2.0
// Bfq alone: worked examples E6 to E9 and E14 of docs/spec/bfq.md section 20, and sections 2 to 8,
// 14 and 15.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "bench.hpp"
#include "bfq_bench.hpp"
#include "writers.hpp"

using namespace elevd::sched;
using elevd::sched::test::BfqBench;

namespace {

constexpr IoPriority kHigh = IoPriority::best_effort(0);
constexpr IoPriority kLow = IoPriority::best_effort(7);
constexpr IoPriority kRealTime = IoPriority::real_time(4);

/// The budget of issuer 1 becomes the largest one.
void grow_budget(BfqBench& bench) {
  for (std::uint64_t n = 0; n < 12; ++n) bench.add({.start = n * 1024, .length = 1024});
  while (bench.elevator.queued() != 0) {
    REQUIRE(bench.dispatch() != nullptr);
    bench.complete_all();
  }
  REQUIRE(bench.expired(BfqReason::budget_exhausted) == 1);
}

void make_seeky(BfqBench& bench, std::uint64_t issuer) {
  for (std::uint64_t n = 0; n < 32; ++n) {
    bench.add({.issuer = issuer, .start = (n % 2) * 100'000 + n * 1000});
    while (bench.dispatch() == nullptr) bench.advance_us(8000);
    bench.complete_all();
  }
  REQUIRE(bench.queue(issuer).seeky());
}

/// The writers of writers.hpp on bfq.
test::Written bfq_writers(const test::Writers& what, std::uint32_t nr_requests) {
  test::Bench bench({.depth = 1, .elevator = [] { return std::make_unique<Bfq>(); }});
  bench.queue().set_nr_requests(nr_requests);
  const test::Written written = test::run_writers(bench, what);
  bench.queue().with_elevator([](Elevator* elevator) { static_cast<Bfq*>(elevator)->check(); });
  return written;
}

}  // namespace

TEST_SUITE("bfq") {
  TEST_CASE("E6: a new queue, and its budget after it was used up") {
    BfqBench bench;
    bench.add({});
    CHECK(bench.queue(1).max_budget == 10922);
    grow_budget(bench);
    CHECK(bench.queue(1).max_budget == 16384);
  }

  TEST_CASE("E7: the budget of one that does not come back in time") {
    BfqBench bench;
    grow_budget(bench);
    std::string budgets;
    std::uint64_t next = 12 * 1024;
    for (unsigned n = 0; n < 8; ++n) {
      bench.advance_us(30'000);
      static_cast<void>(bench.dispatch());
      budgets += std::to_string(bench.queue(1).max_budget) + " ";
      CHECK(!bench.elevator.waiting());
      bench.add({.start = next});
      next += 8;
      REQUIRE(bench.dispatch() != nullptr);
      bench.complete_all();
      CHECK(bench.elevator.waiting());
    }
    CHECK(budgets == "14336 12288 10240 8192 6144 4096 2048 512 ");
  }

  TEST_CASE("E8: a seeky slot pays for the least time") {
    for (const bool rotational : {true, false}) {
      BfqBench bench(rotational);
      make_seeky(bench, 1);
      bench.advance_us(100'000);
      static_cast<void>(bench.dispatch());
      bench.add({.start = 900'000});
      REQUIRE(bench.dispatch() != nullptr);
      bench.complete_all();
      REQUIRE(bench.elevator.waiting());
      bench.advance_us(8000);
      static_cast<void>(bench.dispatch());
      REQUIRE(!bench.elevator.waiting());
      CHECK(bench.queue(1).service == (rotational ? 1057 : 264));
    }
  }

  TEST_CASE("a slot of more than 20 ms with less than half of the budget pays for its time") {
    for (const std::int64_t ms : {20, 21, 30}) {
      CAPTURE(ms);
      BfqBench bench;
      bench.add({});
      REQUIRE(bench.dispatch() != nullptr);
      bench.advance_us(ms * 1000);
      bench.complete_all();
      bench.advance_us(8000);
      static_cast<void>(bench.dispatch());
      REQUIRE(bench.elevator.in_service() == nullptr);
      CHECK(bench.queue(1).service ==
            (ms == 20 ? 8 : 16384 * static_cast<std::uint64_t>(ms) / 124));
    }
  }

  TEST_CASE("a seeky one is waited for 2 ms if nobody is more important") {
    BfqBench bench(true);
    make_seeky(bench, 1);
    REQUIRE(bench.elevator.waiting());
    bench.advance_us(1999);
    static_cast<void>(bench.dispatch());
    CHECK(bench.elevator.waiting());
    bench.advance_us(1);
    static_cast<void>(bench.dispatch());
    CHECK(!bench.elevator.waiting());
  }

  TEST_CASE("what is merged counts: a sequential reader with large requests is not seeky") {
    for (const bool bios : {true, false}) {
      CAPTURE(bios);
      BfqBench bench(true);
      bench.nomerges = 0;
      bench.limits.max_sectors = {2048};
      std::uint64_t place = 0;
      for (unsigned n = 0; n < 32; ++n) {
        bench.add({.start = place, .length = 256});
        for (unsigned part = 1; part < 8; ++part) {
          const BfqBench::Item item{.start = place + part * 256, .length = 256};
          if (!bios) {
            bench.add(item);
            continue;
          }
          REQUIRE(bench.merge_bio(item) == MergeResult::back);
        }
        REQUIRE(bench.elevator.queued() == 1);
        place += 2048;
        REQUIRE(bench.dispatch() != nullptr);
        bench.complete_all();
      }
      CHECK(!bench.queue(1).seeky());
    }
  }

  TEST_CASE("an issuer whose queue competes is not forgotten, however long it rests") {
    BfqBench bench;
    bench.add({.issuer = 1, .priority = kHigh});
    bench.add({.issuer = 2, .start = 5000, .priority = kLow});
    REQUIRE(bench.dispatch_issuer() == 1);
    bench.complete_all();
    bench.add({.issuer = 9, .start = 90'000, .priority = kRealTime});
    REQUIRE(bench.dispatch_issuer() == 9);
    REQUIRE(bench.queue(1).busy);
    bench.advance_us(6'000'000);
    for (std::uint64_t issuer = 10; issuer < 72; ++issuer) bench.add({.issuer = issuer});
    CHECK(bench.elevator.queue_of(1) != nullptr);
    CHECK(bench.elevator.pool().capacity() == 128);
  }

  TEST_CASE("E9: time is over with two thirds of the budget left") {
    BfqBench bench;
    grow_budget(bench);
    bench.advance_us(30'000);
    for (std::uint64_t n = 20; n < 24; ++n) bench.add({.start = n * 1024, .length = 1024});
    REQUIRE(bench.dispatch() != nullptr);
    const std::uint64_t before = bench.queue(1).start;
    bench.advance_us(124'000);
    REQUIRE(bench.dispatch() != nullptr);
    CHECK(bench.expired(BfqReason::budget_timeout) == 1);
    CHECK(bench.queue(1).start - before == bfq_delta(16384, 40));
  }

  TEST_CASE("E14: what an asynchronous request counts") {
    BfqBench bench;
    const Request& rq = bench.add({.op = Op::write, .sync = false});
    const BfqQueue& queue = bench.elevator.async_queue({});
    CHECK(bench.elevator.charge(queue, rq) == 24);
    bench.add({.priority = kRealTime});
    CHECK(bench.elevator.charge(queue, rq) == 8);
  }

  TEST_CASE("T19: who waits gets three times the bytes of who does not") {
    BfqBench bench(true);
    bench.tune([](BfqTunables& tunables) {
      tunables.strict_guarantees = true;
      tunables.max_budget = 2048;
    });
    std::uint64_t read_at = 0;
    std::uint64_t written_at = 500'000'000;
    const auto refill = [&] {
      while (bench.queue(1).queued + bench.queue(1).in_flight < 4) {
        bench.add({.issuer = 1, .start = read_at, .length = 256});
        read_at += 256;
      }
      while (bench.elevator.async_queue({}).queued < 8) {
        bench.add(
            {.issuer = 2, .op = Op::write, .start = written_at, .length = 256, .sync = false});
        written_at += 256;
      }
    };
    bench.add({.issuer = 1, .start = 900'000'000});
    double reads = 0;
    double writes = 0;
    for (unsigned n = 0; n < 4000; ++n) {
      refill();
      (bench.dispatch_late().op == Op::read ? reads : writes) += 1;
      bench.advance_us(1000);
      bench.complete_all();
    }
    CHECK(reads / writes >= 3 * 0.95);
    CHECK(reads / writes <= 3 * 1.05);
  }

  TEST_CASE("weights by level; no class is best effort 4; idle has one level") {
    for (unsigned level = 0; level < 8; ++level) {
      CHECK(BfqPriority::of(IoPriority::best_effort(level)).weight() == (8 - level) * 10);
    }
    CHECK(BfqPriority::of(IoPriority{0}).weight() == 40);
    CHECK(BfqPriority::of(IoPriority{0}).io_class == 1);
    CHECK(BfqPriority::of(IoPriority::idle()).weight() == 10);
    CHECK(BfqPriority::of(IoPriority::make(3, 2)).weight() == 10);
  }

  TEST_CASE("T27: without a class, the level is that of the nice value") {
    const struct {
      IoPriority priority;
      unsigned io_class;
      std::uint32_t weight;
    } rows[] = {{IoPriority::unset(2, 0), 1, 80}, {IoPriority::unset(2, 7), 1, 10},
                {IoPriority::unset(2, 4), 1, 40}, {IoPriority::unset(2, 6), 1, 20},
                {IoPriority::unset(1, 3), 0, 50}, {IoPriority::unset(3, 0), 2, 10}};
    for (const auto& row : rows) {
      CHECK(BfqPriority::of(row.priority).io_class == row.io_class);
      CHECK(BfqPriority::of(row.priority).weight() == row.weight);
    }
    BfqBench bench;
    const Request& rq = bench.make({.op = Op::write, .priority = rows[0].priority, .sync = false});
    Bio& bio = bench.bios.emplace_back();
    bench.fill(bio, {.op = Op::write, .start = 8, .priority = rows[1].priority, .sync = false});
    CHECK(!bench.elevator.allow_merge(rq, bio));  // they go to different queues
    bio.priority = rows[0].priority;
    CHECK(bench.elevator.allow_merge(rq, bio));
  }

  TEST_CASE("the more important one is waited for, the other one is not") {
    BfqBench bench;
    bench.add({.issuer = 1, .priority = kHigh});
    bench.add({.issuer = 2, .start = 5000, .priority = kLow});
    CHECK(bench.dispatch_issuer() == 1);
    CHECK(bench.dispatch_issuer() == 0);
    CHECK(!bench.elevator.wake_at().has_value());  // it is at the device
    CHECK(!bench.complete_all());
    CHECK(bench.elevator.wake_at() == bench.now + Duration{8'000'000});
    CHECK(bench.dispatch_issuer() == 0);
    bench.advance_us(3000);
    bench.add({.issuer = 1, .start = 8, .priority = kHigh});
    CHECK(bench.dispatch_issuer() == 1);
    bench.complete_all();
    bench.advance_us(8000);
    CHECK(bench.dispatch_issuer() == 2);
    CHECK(bench.expired(BfqReason::too_idle) == 1);
    bench.add({.issuer = 1, .start = 16, .priority = kHigh});
    CHECK(bench.queue(1).service == 0);
  }

  TEST_CASE("slice_idle 0: nobody is waited for") {
    BfqBench bench;
    bench.tune([](BfqTunables& tunables) { tunables.slice_idle_us = 0; });
    bench.add({.issuer = 1, .priority = kHigh});
    bench.add({.issuer = 2, .start = 5000, .priority = kLow});
    CHECK(bench.dispatch_issuer() == 1);
    CHECK(bench.dispatch_issuer() == 2);
  }

  TEST_CASE("strict: one at the device, and everybody is waited for") {
    BfqBench bench;
    bench.tune([](BfqTunables& tunables) {
      tunables.slice_idle_us = 0;
      tunables.strict_guarantees = true;
    });
    CHECK(bench.elevator.tunables().slice_idle_us == 8000);
    bench.add({.issuer = 1});
    bench.add({.issuer = 1, .start = 8});
    bench.add({.issuer = 2, .start = 5000});
    CHECK(bench.dispatch_issuer() == 1);
    CHECK(bench.dispatch_issuer() == 0);
    CHECK(bench.complete_all());
    CHECK(bench.dispatch_issuer() == 1);
    bench.complete_all();
    CHECK(bench.elevator.waiting());
    bench.advance_us(8000);
    CHECK(bench.dispatch_issuer() == 2);
  }

  TEST_CASE("one that comes back in time goes on with its budget, before the others") {
    BfqBench bench;
    bench.add({.issuer = 1});
    CHECK(bench.dispatch_issuer() == 1);
    bench.complete_all();
    bench.advance_us(8000);
    CHECK(bench.dispatch_issuer() == 0);
    CHECK(bench.queue(1).hole);
    const std::uint64_t left = bench.queue(1).left_of_budget();
    REQUIRE(left == 10914);
    bench.add({.issuer = 2, .start = 5000});
    bench.add({.issuer = 2, .start = 5008});
    CHECK(bench.dispatch_issuer() == 2);
    bench.advance_us(10'000);
    SUBCASE("in time") {
      const std::uint64_t max_budget = bench.queue(1).max_budget;
      bench.add({.issuer = 1, .start = 8});
      CHECK(bench.expired(BfqReason::preempted) == 1);
      CHECK(bench.queue(1).budget == std::min(left, max_budget));
      CHECK(bfq_later(bench.elevator.root().trees[1].vtime(), bench.queue(1).start));
      CHECK(bench.dispatch_issuer() == 1);
    }
    SUBCASE("too late") {
      bench.advance_us(10'000);
      bench.add({.issuer = 1, .start = 8});
      CHECK(bench.queue(1).start == bench.elevator.root().trees[1].vtime());
    }
  }

  TEST_CASE("a better class or a larger weight ends the turn of who is in service") {
    BfqBench bench;
    for (std::uint64_t n = 0; n < 4; ++n) bench.add({.issuer = 1, .start = n * 8});
    CHECK(bench.dispatch_issuer() == 1);
    bench.add({.issuer = 2, .start = 5000, .priority = kHigh});
    CHECK(bench.expired(BfqReason::preempted) == 1);
    CHECK(bench.dispatch_issuer() == 2);
    bench.add({.issuer = 3, .start = 9000, .priority = kRealTime});
    CHECK(bench.expired(BfqReason::preempted) == 2);
    CHECK(bench.dispatch_issuer() == 3);
    bench.add({.issuer = 4, .start = 19000, .priority = kLow});
    CHECK(bench.expired(BfqReason::preempted) == 2);
  }

  TEST_CASE("classes are strict, but the idle class has one request in 200 ms") {
    BfqBench bench;
    bench.tune([](BfqTunables& tunables) { tunables.max_budget = 64; });
    std::string served;
    std::uint64_t place = 0;
    const auto feed = [&] {
      for (const IoPriority priority : {IoPriority::idle(), IoPriority{}, kRealTime}) {
        bench.add({.issuer = priority.io_class(), .start = place, .priority = priority});
        place += 8;
      }
    };
    for (unsigned n = 0; n < 20; ++n) feed();
    unsigned idle = 0;
    unsigned best_effort = 0;
    for (unsigned n = 0; n < 1000; ++n) {
      feed();
      const std::uint64_t io_class = bench.dispatch_issuer();
      if (io_class == 3) ++idle;
      if (io_class == 2) ++best_effort;
      bench.complete_all();
      bench.advance_us(1000);
    }
    CHECK(best_effort == 0);
    CHECK(idle >= 4);
    CHECK(idle <= 6);
  }

  TEST_CASE("order: up from the head, back only if that is near") {
    BfqBench bench;
    bench.add({.start = 1000});
    CHECK(bench.dispatch_place() == "1000");
    bench.add({.start = 990});   // back by 18: costs 36
    bench.add({.start = 1040});  // up by 32
    bench.add({.start = 1020});
    CHECK(bench.dispatch_place() == "1020");
    CHECK(bench.dispatch_place() == "1040");
    CHECK(bench.dispatch_place() == "990");
    bench.tune([](BfqTunables& tunables) { tunables.back_seek_max_kb = 0; });
    bench.add({.start = 500});
    bench.add({.start = 90000});
    CHECK(bench.dispatch_place() == "90000");
    CHECK(bench.dispatch_place() == "500");
  }

  TEST_CASE("equal cost: the higher sector; both too far back: the lower") {
    BfqBench bench;
    bench.tune([](BfqTunables& tunables) { tunables.back_seek_penalty = 1; });
    bench.add({.start = 1000});
    CHECK(bench.dispatch_place() == "1000");
    bench.add({.start = 908});
    bench.add({.start = 1108});
    CHECK(bench.dispatch_place() == "1108");
    CHECK(bench.dispatch_place() == "908");
    bench.tune([](BfqTunables& tunables) { tunables.back_seek_max_kb = 0; });
    bench.add({.start = 700});
    bench.add({.start = 300});
    CHECK(bench.dispatch_place() == "300");
  }

  TEST_CASE("I17: the oldest one past its deadline is the second request of a slot") {
    BfqBench bench;
    bench.add({.issuer = 2, .start = 100'000'000, .priority = kRealTime});
    bench.add({.start = 90'000'000});
    bench.add({.start = 8});
    CHECK(bench.dispatch_issuer() == 2);
    bench.complete_all();
    bench.advance_us(126'000);
    bench.add({.start = 16});
    bench.add({.start = 24});
    CHECK(bench.queue(1).next->start.value == 8);
    CHECK(bench.dispatch_place() == "8");
    CHECK(bench.dispatch_place() == "90000000");
    CHECK(bench.dispatch_place() == "16");  // both are too far back
  }

  TEST_CASE("the deadline is looked at once in a slot") {
    BfqBench bench;
    bench.add({.issuer = 2, .start = 100'000'000, .priority = kRealTime});
    bench.add({.start = 90'000'000});
    bench.add({.start = 80'000'000});
    bench.add({.start = 8});
    CHECK(bench.dispatch_issuer() == 2);
    bench.complete_all();
    bench.advance_us(126'000);
    bench.add({.start = 16});
    CHECK(bench.dispatch_place() == "8");
    CHECK(bench.dispatch_place() == "90000000");
    CHECK(bench.dispatch_place() == "16");  // though the one at 80000000 is past its deadline, too
  }

  TEST_CASE("far is more than 800 sectors, and on a non-rotational disk less than 64 of them") {
    struct Row {
      bool rotational;
      std::uint64_t distance, length;
      unsigned far;
    };
    const Row rows[] = {{true, 800, 8, 0},  {true, 801, 8, 1},   {true, 801, 64, 1},
                        {false, 800, 8, 0}, {false, 801, 63, 1}, {false, 801, 64, 0}};
    for (const Row& row : rows) {
      CAPTURE(row.rotational);
      CAPTURE(row.distance);
      CAPTURE(row.length);
      for (const bool back : {false, true}) {
        BfqBench bench(row.rotational);
        bench.add({.start = 9992, .length = 8});
        bench.add(
            {.start = back ? 10'000 - row.distance : 10'000 + row.distance, .length = row.length});
        CHECK((bench.queue(1).seek_history & 1U) == row.far);
      }
    }
  }

  TEST_CASE("who is idle for more than a fifth of the time does not keep the device busy") {
    for (const std::int64_t idle_ms : {20, 21}) {
      CAPTURE(idle_ms);
      BfqBench bench;
      bench.add({});
      REQUIRE(bench.dispatch() != nullptr);
      bench.advance_us((100 - idle_ms) * 1000);
      bench.complete_all();
      bench.advance_us(idle_ms * 1000);
      bench.add({.start = 8});
      CHECK(bench.queue(1).io_bound == (idle_ms == 20));
    }
  }

  TEST_CASE("at head: before everything, in order, outside of fairness") {
    BfqBench bench;
    bench.add({.start = 8});
    bench.add({.issuer = 2, .start = 500, .flags = kRqAtHead | kRqNoMerge});
    bench.add({.issuer = 2, .start = 600, .flags = kRqAtHead | kRqNoMerge});
    CHECK(bench.dispatch_place() == "500");
    CHECK(bench.dispatch_place() == "600");
    CHECK(bench.elevator.in_driver() == 0);
    CHECK(bench.dispatch_place() == "8");
  }

  TEST_CASE(
      "a device that takes several at once is found out, and then throughput needs no waiting") {
    BfqBench bench(true);
    bench.add({.issuer = 1});
    bench.dispatch();
    bench.complete_all();
    CHECK(bench.elevator.better_to_idle(bench.queue(1)));
    make_seeky(bench, 2);
    bench.add({.issuer = 3, .start = 500'000});
    bench.add({.issuer = 2, .start = 900'000});
    // One at a time: after 33 samples it is taken for a device without queueing, and even a seeky
    // issuer is waited for.
    for (std::uint64_t n = 0; n < 60; ++n) {
      for (std::uint64_t k = 0; k < 4; ++k) bench.add({.issuer = 3, .start = n * 5000 + k * 900});
      if (bench.dispatch() == nullptr) bench.advance_us(8000);
      bench.complete_all();
    }
    CHECK(bench.elevator.better_to_idle(bench.queue(2)));
  }

  TEST_CASE("a changed level counts from the next slot, a changed class begins anew") {
    BfqBench bench;
    bench.tune([](BfqTunables& tunables) { tunables.max_budget = 64; });
    bench.add({.issuer = 1, .start = 0, .length = 40});
    bench.add({.issuer = 2, .start = 5000});
    CHECK(bench.dispatch_issuer() == 1);
    bench.add({.issuer = 1, .start = 40, .length = 40, .priority = kHigh});
    CHECK(bench.queue(1).weight == 40);
    bench.add({.issuer = 1, .start = 90, .length = 40, .priority = kRealTime});
    CHECK(bench.queue(1).io_class == 1);
    while (bench.dispatch() != nullptr) bench.complete_all();
    CHECK(bench.queue(1).io_class == 0);
    CHECK(bench.queue(1).tree == &bench.elevator.root().trees[0]);
  }

  TEST_CASE("a request that comes back from the driver is queued again, not counted again") {
    BfqBench bench;
    Request& rq = bench.add({});
    REQUIRE(bench.dispatch() == &rq);
    bench.out.clear();
    bench.insert(rq);
    CHECK(bench.elevator.in_driver() == 0);
    CHECK(bench.elevator.queued() == 1);
    CHECK(bench.elevator.counts().inserted == 1);
    CHECK(bench.dispatch() == &rq);
  }

  TEST_CASE("merges happen inside a queue only") {
    BfqBench bench;
    bench.nomerges = 0;
    bench.add({.issuer = 1, .start = 0});
    bench.add({.issuer = 2, .start = 8});
    CHECK(bench.elevator.queued() == 2);
    bench.add({.issuer = 1, .start = 8});
    CHECK(bench.elevator.queued() == 2);
    Bio& bio = bench.bios.emplace_back();
    RequestList merged;
    bench.fill(bio, {.issuer = 3, .start = 16});
    CHECK(bench.elevator.bio_merge(bio, merged, bench.now) == MergeResult::none);
    bench.fill(bio, {.issuer = 2, .start = 16});
    CHECK(bench.elevator.bio_merge(bio, merged, bench.now) == MergeResult::back);
    Bio& front = bench.bios.emplace_back();
    bench.add({.issuer = 2, .start = 500});
    bench.fill(front, {.issuer = 2, .start = 492});
    CHECK(bench.elevator.bio_merge(front, merged, bench.now) == MergeResult::front);
    bench.elevator.check();
    Request& late = bench.make({.issuer = 2, .start = 484, .flags = kRqLookupSkipped});
    bench.insert(late);
    CHECK(bench.elevator.queued() == 3);
    CHECK(late.length.value == 24);
    // In a plug, where requests of several issuers meet.
    const Request& rq = bench.make({.issuer = 1, .op = Op::write});
    bench.fill(bio, {.issuer = 2, .op = Op::write, .start = 8});
    CHECK(!bench.elevator.allow_merge(rq, bio));
    bio.issuer = 1;
    CHECK(bench.elevator.allow_merge(rq, bio));
    bio.flags = 0;
    CHECK(!bench.elevator.allow_merge(rq, bio));
    const Request& async = bench.make({.issuer = 1, .op = Op::write, .sync = false});
    bio.issuer = 2;
    CHECK(bench.elevator.allow_merge(async, bio));
  }

  TEST_CASE("many sequential writers: what contention skips is made up for") {
    const struct {
      const char* words;
      bool issuers;
    } rows[] = {{"/sync", false}, {"/sync", true}, {"", true}};
    for (const auto& row : rows) {
      for (const std::uint32_t nr_requests : {256U, 32U}) {
        CAPTURE(row.words);
        CAPTURE(row.issuers);
        CAPTURE(nr_requests);
        test::Writers what{.words = row.words, .issuers = row.issuers};
        const test::Written free = bfq_writers(what, nr_requests);
        what.contended = true;
        const test::Written contended = bfq_writers(what, nr_requests);
        MESSAGE("requests for 2048 writes: ", free.requests, ", contended: ", contended.requests,
                "; ms: ", free.took.ns / 1'000'000, ", contended: ", contended.took.ns / 1'000'000);
        // Synchronous writes of several issuers are in a queue each, unless those are merged.
        const bool one_queue = !row.issuers || *row.words == '\0';
        if (one_queue) CHECK(free.requests < 512);
        CHECK(contended.requests <= free.requests);
        CHECK(contended.took <= free.took);
        if (nr_requests < what.writers) continue;
        what.contended = false;
        what.held = true;
        const test::Written held = bfq_writers(what, nr_requests);
        CHECK(held.requests <= free.requests);
        CHECK(held.took <= free.took);
      }
    }
  }

  TEST_CASE("a grown next request has a budget that does") {
    BfqBench bench;
    bench.nomerges = 0;
    bench.tune([](BfqTunables& tunables) { tunables.max_budget = 64; });
    bench.add({.issuer = 1, .start = 50'000, .priority = kHigh});
    CHECK(bench.dispatch_issuer() == 1);
    bench.add({.issuer = 2, .start = 0, .length = 40});
    bench.add({.issuer = 2, .start = 40, .length = 40});
    CHECK(bench.queue(2).budget == 80);
  }

  TEST_CASE("depth by kind of request") {
    Bio read;
    Bio sync_write;
    sync_write.op = Op::write;
    sync_write.flags = kBioSync;
    Bio async;
    async.op = Op::write;
    const struct {
      std::uint32_t n, sync_write, async;
    } rows[] = {{256, 192, 128}, {64, 48, 32}, {4, 3, 2}, {1, 1, 1}};
    for (const auto& row : rows) {
      Bfq elevator;
      const std::uint32_t depth = elevator.default_async_depth(row.n);
      CHECK(elevator.depth_updated(row.n, depth) == 1);
      CHECK(elevator.limit(read).shallow == Sbitmap::kUnlimited);
      if (row.n > 1) {
        CHECK(elevator.limit(sync_write).shallow == row.sync_write);
        CHECK(elevator.limit(sync_write).depth_class == DepthClass::sync_write);
      }
      CHECK(elevator.limit(async).shallow == row.async);
      CHECK(elevator.limit(async).depth_class == DepthClass::async);
    }
  }

  TEST_CASE("a wait that begins with a step of a flush sequence bounds the worker's sleep") {
    test::Bench bench({.workers = 2, .elevator = [] { return std::make_unique<Bfq>(); }});
    bench.burst("W0/fua/sync/BE0", 0);
    bench.burst("R5000/BE7", 1);
    REQUIRE(bench.held_text() == "W0+8");
    bench.worker(0).wake_at.reset();
    bench.complete();
    CHECK(bench.worker(0).wake_at == bench.now() + Duration{8'000'000});
  }

  TEST_CASE("queues of issuers that are gone are used again") {
    BfqBench bench;
    for (std::uint64_t issuer = 1; issuer <= 1000; ++issuer) {
      bench.add({.issuer = issuer, .start = issuer * 8});
      while (bench.elevator.has_work() && bench.dispatch() == nullptr) bench.advance_us(8000);
      bench.complete_all();
      bench.advance_us(200'000);
    }
    CHECK(bench.elevator.pool().capacity() <= 64);
    CHECK(bench.elevator.queue_of(1) == nullptr);
    CHECK(bench.elevator.queue_of(1000) != nullptr);
    for (std::uint64_t issuer = 1001; issuer <= 1300; ++issuer) bench.add({.issuer = issuer});
    CHECK(bench.elevator.pool().capacity() == 384);
  }
}
