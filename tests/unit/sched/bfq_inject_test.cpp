// SPDX-License-Identifier: Apache-2.0
// Requests of bfq that are served while another queue is kept: docs/spec/bfq.md section 12.
#include <doctest/doctest.h>

#include "bfq_bench.hpp"

using namespace elevd::sched;
using namespace elevd::sched::literals;
using elevd::sched::test::BfqBench;

namespace {

constexpr IoPriority kUrgent = IoPriority::best_effort(0);
constexpr IoPriority kPatient = IoPriority::best_effort(7);

/// Issuer 1, the more important one, is waited for; 2 has `others` requests.
struct Waiting : BfqBench {
  std::uint64_t place = 0;

  explicit Waiting(bool rotational = false, unsigned others = 8) : BfqBench(rotational) {
    tune([](BfqTunables& tunables) {
      tunables.slice_idle_us = 100'000;
      tunables.timeout_sync_ms = 100'000;
    });
    request();
    for (unsigned n = 0; n < others; ++n) add_other(2, n);
    REQUIRE(dispatch_issuer() == 1);
    REQUIRE(dispatch_issuer() == 0);
    complete_all();
    REQUIRE(elevator.waiting());
  }
  Request& request() {
    Request& rq = add({.issuer = 1, .start = place, .priority = kUrgent});
    place += 8;
    return rq;
  }
  Request& add_other(std::uint64_t issuer, std::uint64_t n, std::uint64_t length = 8) {
    return add({.issuer = issuer,
                .start = issuer * 10'000'000 + n * 8,
                .length = length,
                .priority = kPatient});
  }
  /// A request of 1, measured over `us`.
  void sample(std::int64_t us) {
    advance_us(10'000);
    Request& rq = request();
    REQUIRE(dispatch() == &rq);
    advance_us(us);
    complete(rq);
  }
  std::uint32_t limit() { return queue(1).inject_limit; }
};

/// Issuer 2, the more important one, goes on when a request of 1 is completed, after a long time.
struct Woken : BfqBench {
  Woken() {
    tune([](BfqTunables& tunables) { tunables.slice_idle_us = 10'000; });
  }

  void serve(std::uint64_t issuer, IoPriority priority) {
    add({.issuer = issuer, .start = issuer * 10'000'000, .priority = priority});
    dispatch_late();
    complete_all();
  }
  void round(std::int64_t gap_us = 1000, std::uint64_t first = 1) {
    serve(first, kPatient);
    advance_us(gap_us);
    serve(2, kUrgent);
    advance_us(30'000);
    static_cast<void>(dispatch());
  }
  void make_long_think() {
    for (unsigned n = 0; n < 8; ++n) {
      serve(2, kUrgent);
      advance_us(30'000);
      static_cast<void>(dispatch());
    }
    REQUIRE(!queue(2).short_think);
    REQUIRE(queue(2).waker == nullptr);
  }
};

}  // namespace

TEST_SUITE("bfq injection") {
  TEST_CASE("nothing is injected before it is known how long a request takes alone") {
    Waiting bench;
    CHECK(bench.limit() == 0);
    CHECK(bench.dispatch_issuer() == 0);
    bench.sample(1000);
    CHECK(bench.queue(1).time_alone == 1_ms);
    CHECK(bench.limit() == 1);
    CHECK(bench.dispatch_issuer() == 2);
    CHECK(bench.dispatch_issuer() == 0);  // one is at the device
    CHECK(bench.elevator.counts().injected == 1);
    CHECK(bench.complete_all());  // there is room for the next one
    CHECK(bench.dispatch_issuer() == 2);
  }

  TEST_CASE("more as long as a request takes less than half as long again, else fewer") {
    Waiting bench;
    bench.sample(1000);
    REQUIRE(bench.dispatch_issuer() == 2);
    bench.sample(1499);
    CHECK(bench.limit() == 2);
    REQUIRE(bench.dispatch_issuer() == 2);
    REQUIRE(bench.dispatch_issuer() == 0);
    bench.sample(1500);
    CHECK(bench.limit() == 1);
    bench.sample(2000);
    CHECK(bench.limit() == 0);
    bench.sample(2000);
    CHECK(bench.limit() == 0);
    CHECK(bench.queue(1).time_alone == 1_ms);
  }

  TEST_CASE("the limit is at most one above what was at the device at a time") {
    Waiting bench;
    bench.sample(1000);
    REQUIRE(bench.dispatch_issuer() == 2);
    for (unsigned n = 0; n < 5; ++n) bench.sample(1000);
    CHECK(bench.limit() == 3);
  }

  TEST_CASE("a sample in 10 ms") {
    Waiting bench;
    bench.sample(1000);
    bench.advance_us(8999);
    Request& early = bench.request();
    REQUIRE(bench.dispatch() == &early);
    bench.complete_all();
    CHECK(bench.queue(1).time_alone == 1_ms);
    bench.advance_us(1);
    Request& rq = bench.request();
    REQUIRE(bench.dispatch() == &rq);
    bench.advance_us(500);
    bench.complete(rq);
    CHECK(bench.queue(1).time_alone == Duration{500'000});
  }

  TEST_CASE("what is measured ends when the request is merged into another one") {
    Waiting bench(false, 0);
    bench.nomerges = 0;
    bench.advance_us(10'000);
    Request& rq = bench.request();
    const Request& before = bench.add(
        {.issuer = 1, .start = rq.start.value - 8, .priority = kUrgent, .flags = kRqLookupSkipped});
    REQUIRE(before.length.value == 16);
    REQUIRE(bench.dispatch() == &before);
    bench.complete_all();
    // Its place is used again.
    Bio& bio = bench.bios.emplace_back();
    bench.fill(bio, {.issuer = 1, .start = 5000, .priority = kUrgent});
    rq.first = rq.last = &bio;
    rq.start = bio.start;
    bench.insert(rq);
    REQUIRE(bench.dispatch() == &rq);
    bench.complete_all();
    CHECK(!bench.queue(1).time_alone.has_value());
  }

  TEST_CASE("what is measured ends with the slot") {
    Waiting bench;
    bench.advance_us(10'000);
    Request& rq = bench.request();
    REQUIRE(bench.dispatch() == &rq);
    bench.add({.issuer = 3, .start = 80'000'000, .priority = IoPriority::real_time(0)});
    REQUIRE(bench.expired(BfqReason::preempted) == 1);
    bench.complete(rq);
    CHECK(!bench.queue(1).time_alone.has_value());
    CHECK(bench.limit() == 0);
  }

  TEST_CASE("a time with something else at the device says nothing") {
    Waiting bench(false, 0);
    Request& write = bench.add(
        {.issuer = 1, .op = Op::write, .start = 9000, .priority = kUrgent, .sync = false});
    REQUIRE(bench.dispatch() == &write);
    bench.advance_us(100'000);
    static_cast<void>(bench.dispatch());
    REQUIRE(bench.elevator.in_service() == nullptr);  // and nobody knows now who sent it
    Request& rq = bench.request();
    REQUIRE(bench.dispatch() == &rq);
    bench.complete(rq);
    REQUIRE(bench.elevator.waiting());
    bench.sample(1000);
    CHECK(!bench.queue(1).time_alone.has_value());
    bench.complete(write);
    bench.sample(1000);
    CHECK(bench.queue(1).time_alone == 1_ms);
  }

  TEST_CASE("the limit begins anew after a second, and when the issuer thinks otherwise") {
    Waiting bench;
    bench.sample(1000);
    const Instant from = bench.queue(1).inject_from;
    SUBCASE("a second") {
      while (bench.now < from + 990_ms) {
        bench.advance_us(9000);
        Request& rq = bench.request();
        REQUIRE(bench.dispatch() == &rq);
        bench.complete_all();
      }
      CHECK(bench.queue(1).inject_from == from);
      CHECK(bench.limit() == 1);
      bench.advance_us(10'000);
      bench.request();
      CHECK(bench.queue(1).inject_from == bench.now);
      CHECK(bench.limit() == 0);
      CHECK(!bench.queue(1).time_alone.has_value());
    }
    SUBCASE("longer") {
      // It is not waited for in vain each time: think time counts when the queue is not busy.
      for (unsigned n = 0; n < 6; ++n) {
        bench.advance_us(120'000);
        static_cast<void>(bench.dispatch());
        bench.complete_all();
        bench.request();
        while (bench.dispatch_late().issuer != 1) bench.complete_all();
        bench.complete_all();
      }
      CHECK(!bench.queue(1).short_think);
      CHECK(bench.limit() == 1);
      CHECK(!bench.queue(1).time_alone.has_value());
    }
  }

  TEST_CASE("not if waiting brings throughput, and not under strict guarantees") {
    SUBCASE("a sequential reader on a rotational disk") {
      Waiting bench(true);
      bench.request();
      REQUIRE(bench.dispatch_issuer() == 1);
      bench.advance_us(100'000);  // it keeps the device busy
      bench.complete_all();
      bench.sample(1000);
      REQUIRE(bench.limit() == 1);
      CHECK(bench.dispatch_issuer() == 0);
    }
    SUBCASE("strict") {
      Waiting bench;
      bench.sample(1000);
      bench.tune([](BfqTunables& tunables) { tunables.strict_guarantees = true; });
      CHECK(bench.dispatch_issuer() == 0);
    }
  }

  TEST_CASE("a large request: on a non-rotational disk only if nothing is at the device") {
    for (const std::uint64_t length : {63U, 64U}) {
      Waiting bench(false, 1);
      bench.sample(1000);
      REQUIRE(bench.dispatch_issuer() == 2);
      bench.sample(1000);
      REQUIRE(bench.limit() == 2);
      bench.add_other(2, 5, length);
      CHECK(bench.dispatch_issuer() == (length == 64 ? 0 : 2));
      bench.complete_all();
      CHECK(bench.dispatch_issuer() == (length == 64 ? 2 : 0));
    }
  }

  TEST_CASE("only what fits into the budget of its queue") {
    Waiting bench(false, 0);
    bench.add_other(2, 0);
    bench.sample(1000);
    bench.tune([](BfqTunables& tunables) { tunables.max_budget = 64; });
    bench.add_other(3, 0, 60);
    bench.add_other(3, 100, 60);
    REQUIRE(bench.dispatch_issuer() == 2);
    bench.complete(*bench.out.front());
    REQUIRE(bench.dispatch_issuer() == 3);
    CHECK(bench.queue(3).service == 60);
    bench.complete_all();
    CHECK(bench.dispatch_issuer() == 0);
  }

  TEST_CASE("a queue that has nothing left was served: it is idle, and time has gone on") {
    Waiting bench(false, 1);
    bench.sample(1000);
    const std::uint64_t before = bench.elevator.root().trees[1].vtime();
    REQUIRE(bench.dispatch_issuer() == 2);
    const BfqQueue& queue = bench.queue(2);
    CHECK(!queue.busy);
    CHECK(queue.budget == 0);
    CHECK(queue.service == 0);
    CHECK(!queue.hole);
    CHECK(bench.elevator.root().trees[1].vtime() == before + bfq_delta(8, 80 + 10));
    CHECK(queue.place == BfqEntity::Place::idle);
    CHECK(bench.elevator.in_service() == &bench.queue(1));
    CHECK(bench.elevator.waiting());
  }

  TEST_CASE("who is raised and comes back soon is disturbed by raised ones only") {
    Waiting bench(false, 1);
    bench.sample(1000);
    bench.complete_all();
    // Both were there before raising: 1 becomes raised by coming back after seconds.
    bench.tune([](BfqTunables& tunables) { tunables.low_latency = true; });
    bench.advance_us(100'000);
    REQUIRE(bench.dispatch_issuer() == 2);
    bench.complete_all();
    bench.advance_us(3'000'000);
    static_cast<void>(bench.dispatch());
    const auto serve_raised = [&] {
      bench.add({.issuer = 5, .start = 0});
      REQUIRE(bench.dispatch_issuer() == 5);
      bench.advance_us(500);
      bench.complete_all();
    };
    serve_raised();
    REQUIRE(bench.queue(5).raise == 30);
    bench.add_other(2, 7);
    bench.advance_us(10'000);
    serve_raised();
    REQUIRE(bench.queue(5).inject_limit == 1);
    CHECK(bench.dispatch_issuer() == 0);
    bench.add({.issuer = 6, .start = 60'000'000});
    REQUIRE(bench.queue(6).raise == 30);
    REQUIRE(bench.elevator.in_service() == &bench.queue(5));
    CHECK(bench.dispatch_issuer() == 6);
    CHECK(bench.dispatch_issuer() == 0);
  }

  TEST_CASE("what the issuer does not wait for itself goes first, whatever the limit") {
    Waiting bench(false, 1);
    REQUIRE(bench.limit() == 0);
    bench.add({.issuer = 3, .op = Op::write, .start = 8, .priority = kUrgent, .sync = false});
    CHECK(bench.dispatch_issuer() == 0);
    bench.add({.issuer = 1, .op = Op::write, .start = 0, .priority = kUrgent, .sync = false});
    CHECK(bench.elevator.async_queue(kUrgent).next->issuer == 3);
    CHECK(bench.dispatch_issuer() == 0);
    bench.add({.issuer = 1, .op = Op::write, .start = 70, .priority = kUrgent, .sync = false});
    bench.sample(1000);
    REQUIRE(bench.limit() == 1);
    REQUIRE(bench.dispatch_issuer() == 2);  // came to the device's list of busy ones before
    REQUIRE(bench.out.size() == 1);
    REQUIRE(bench.dispatch_issuer() == 0);
    bench.complete_all();
    REQUIRE(bench.dispatch_issuer() == 3);
    CHECK(bench.elevator.async_queue(kUrgent).next->issuer == 1);
    CHECK(bench.dispatch_issuer() == 1);
  }

  TEST_CASE("a waker is believed the third time") {
    Woken bench;
    bench.make_long_think();
    bench.round();
    bench.round();
    CHECK(bench.queue(2).waker == nullptr);
    SUBCASE("in a row") {
      bench.round();
      CHECK(bench.queue(2).waker == &bench.queue(1));
      CHECK(bench.queue(1).woken.size() == 1);
    }
    SUBCASE("not with another one in between") {
      bench.round(1000, 3);
      bench.round();
      CHECK(bench.queue(2).waker == nullptr);
    }
    SUBCASE("not if it goes on 4 ms later") {
      bench.round(4000);
      CHECK(bench.queue(2).waker == nullptr);
      bench.round(3999);
      CHECK(bench.queue(2).waker != nullptr);
    }
    SUBCASE("within 128 times slice_idle") {
      bench.advance_us(1'280'000);
      bench.round();
      CHECK(bench.queue(2).waker == nullptr);
    }
  }

  TEST_CASE("one that thinks for a short time, or has more than one request, has no waker") {
    Woken bench;
    SUBCASE("short") {
      bench.tune([](BfqTunables& tunables) { tunables.slice_idle_us = 200'000; });
      for (unsigned n = 0; n < 6; ++n) {
        bench.serve(1, kPatient);
        bench.serve(2, kUrgent);
      }
      REQUIRE(bench.queue(2).short_think);
      CHECK(bench.queue(2).waker == nullptr);
    }
    SUBCASE("more") {
      bench.make_long_think();
      for (unsigned n = 0; n < 6; ++n) {
        const Request& other = bench.add({.issuer = 1, .start = 10'000'000, .priority = kPatient});
        REQUIRE(bench.dispatch() == &other);
        bench.add({.issuer = 2, .start = 20'000'000, .priority = kUrgent});
        REQUIRE(bench.dispatch_issuer() == 2);
        bench.complete(*bench.out.front());
        bench.add({.issuer = 2, .start = 20'000'008, .priority = kUrgent});
        REQUIRE(bench.dispatch_issuer() == 2);
        bench.complete_all();
        bench.advance_us(30'000);
        static_cast<void>(bench.dispatch());
      }
      CHECK(bench.queue(2).waker == nullptr);
    }
  }

  TEST_CASE("a shared queue is nobody's waker") {
    Woken bench;
    bench.elevator.join_twins(true);
    bench.add({.issuer = 1, .start = 10'000'000, .priority = kPatient});
    bench.add({.issuer = 3, .start = 30'000'000, .priority = kPatient});
    REQUIRE(bench.queue(1).shared);
    bench.dispatch_late();
    bench.dispatch_late();
    bench.complete_all();
    bench.make_long_think();
    for (unsigned n = 0; n < 5; ++n) bench.round();
    CHECK(bench.queue(2).waker == nullptr);
  }

  TEST_CASE("the waker goes before others, and so do those that are woken") {
    Woken bench;
    bench.make_long_think();
    for (unsigned n = 0; n < 3; ++n) bench.round();
    REQUIRE(bench.queue(2).waker == &bench.queue(1));
    SUBCASE("waker") {
      bench.serve(2, kUrgent);
      REQUIRE(bench.elevator.in_service() == &bench.queue(2));
      bench.add({.issuer = 3, .start = 50'000'000, .priority = kPatient});
      bench.add({.issuer = 1, .start = 10'000'000, .priority = kPatient});
      CHECK(bench.dispatch_issuer() == 1);
    }
    SUBCASE("woken") {
      bench.advance_us(40'000);  // too late to go on with what was left of a budget
      static_cast<void>(bench.dispatch());
      bench.serve(1, kUrgent);
      REQUIRE(bench.elevator.waiting());
      bench.add({.issuer = 3, .start = 50'000'000, .priority = kPatient});
      bench.add({.issuer = 2, .start = 20'000'000, .priority = kPatient});
      REQUIRE(bench.elevator.in_service() == &bench.queue(1));
      CHECK(bench.dispatch_issuer() == 2);
      CHECK(bench.dispatch_issuer() == 0);
    }
    SUBCASE("a waker that is gone is nobody's") {
      bench.advance_us(6'000'000);
      static_cast<void>(bench.dispatch());
      bench.serve(2, kUrgent);
      for (std::uint64_t issuer = 10; issuer < 80; ++issuer) bench.serve(issuer, kPatient);
      REQUIRE(bench.elevator.queue_of(1) == nullptr);
      CHECK(bench.queue(2).waker == nullptr);
    }
  }
}
