// SPDX-License-Identifier: Apache-2.0
// Queues of bfq that are merged and split: docs/spec/bfq.md section 11, and T25, T26 of section 21.
#include <doctest/doctest.h>

#include <string>

#include "bfq_bench.hpp"

using namespace elevd::sched;
using elevd::sched::test::BfqBench;

namespace {

bool together(BfqBench& bench, std::uint64_t a, std::uint64_t b) {
  return &bench.queue(a) == &bench.queue(b);
}

/// Serves everything that is queued.
void serve_all(BfqBench& bench) {
  while (bench.elevator.has_work()) {
    bench.dispatch_late();
    bench.complete_all();
  }
}

void read(BfqBench& bench, std::uint64_t issuer, std::uint64_t start) {
  bench.add({.issuer = issuer, .start = start});
}

/// `us` pass, and whoever is waited for too long is so no more.
void rest(BfqBench& bench, std::int64_t us) {
  bench.advance_us(us);
  static_cast<void>(bench.dispatch());
}

/// From now on issuers are raised.
void raise_issuers(BfqBench& bench) {
  bench.tune([](BfqTunables& tunables) { tunables.low_latency = true; });
}

/// Issuers `a` and `b` work at one place: b has a request at 128, then a has one at 256.
void make_pair(BfqBench& bench, std::uint64_t a = 1, std::uint64_t b = 2) {
  read(bench, a, 0);
  read(bench, b, 128);
  read(bench, a, 256);
  REQUIRE(together(bench, a, b));
}

/// The shared queue of `a` and `b` is served while both go their own way.
void go_apart(BfqBench& bench, std::uint64_t a = 1, std::uint64_t b = 2) {
  for (std::uint64_t n = 1; n <= 40; ++n) {
    read(bench, a, n * 10'000);
    read(bench, b, 900'000'000 - n * 10'000);
  }
  REQUIRE(bench.queue(a).seeky());
  serve_all(bench);
  rest(bench, 20'000);
  REQUIRE(bench.elevator.in_service() == nullptr);
}

}  // namespace

TEST_SUITE("bfq cooperation") {
  TEST_CASE("T26: readers of interleaved places share a queue, and requests of both are merged") {
    BfqBench bench(true);
    bench.nomerges = 0;
    read(bench, 1, 0);
    bench.advance_us(10'000);
    read(bench, 2, 8);
    CHECK(!together(bench, 1, 2));  // there was one busy queue only
    read(bench, 1, 16);
    CHECK(together(bench, 1, 2));
    CHECK(bench.queue(1).shared);
    CHECK(bench.elevator.counts().redirected == 1);
    CHECK(bench.elevator.counts().joined == 1);
    CHECK(bench.queue(1).next->length.value == 16);
    CHECK(bench.merge_bio({.issuer = 2, .start = 24}) == MergeResult::back);
    serve_all(bench);
  }

  TEST_CASE("a bio alone brings queues together") {
    BfqBench bench(true);
    bench.nomerges = 0;
    read(bench, 1, 5000);
    read(bench, 2, 5100);
    CHECK(bench.merge_bio({.issuer = 1, .start = 5108}) == MergeResult::back);
    CHECK(together(bench, 1, 2));
    serve_all(bench);
  }

  TEST_CASE("who keeps the device busy still does in the queue of one that does not") {
    BfqBench bench(true);
    read(bench, 2, 5000);
    serve_all(bench);
    bench.advance_us(50'000);
    read(bench, 2, 5100);
    REQUIRE(!bench.queue(2).io_bound);
    read(bench, 1, 90'000'000);
    REQUIRE(bench.queue(1).io_bound);
    static_cast<void>(bench.merge_bio({.issuer = 1, .start = 5200}));
    REQUIRE(together(bench, 1, 2));
    CHECK(bench.queue(2).io_bound);
    serve_all(bench);
  }

  TEST_CASE("near is 8192 sectors, above and below") {
    for (const std::uint64_t distance : {8192U, 8193U}) {
      for (const bool above : {true, false}) {
        CAPTURE(distance);
        CAPTURE(above);
        BfqBench bench(true);
        read(bench, 1, 1'000'000);
        read(bench, 2, 500'000);
        read(bench, 1, above ? 500'000 + distance : 500'000 - distance);
        CHECK(together(bench, 1, 2) == (distance == 8192));
      }
    }
  }

  TEST_CASE("of two that are near, the nearer one, from either side") {
    for (const std::uint64_t place : {507'000U, 505'000U}) {
      BfqBench bench(true);
      read(bench, 1, 90'000'000);
      read(bench, 2, 500'000);
      read(bench, 3, 512'000);
      REQUIRE(!together(bench, 2, 3));
      read(bench, 1, place);
      CHECK(together(bench, 1, place == 507'000 ? 3 : 2));
    }
  }

  TEST_CASE("who does not cooperate") {
    struct Row {
      const char* what;
      bool rotational;
      IoPriority first, second;
      void (*between)(BfqBench&);
    };
    const auto nothing = [](BfqBench&) {};
    const IoPriority usual;
    const Row rows[] = {
        {"non-rotational", false, usual, usual, nothing},
        {"another class", true, usual, IoPriority::real_time(4), nothing},
        {"both of the idle class", true, IoPriority::idle(), IoPriority::idle(), nothing},
        {"the other one was served, and it is 100 ms since its first I/O", true, usual, usual,
         [](BfqBench& bench) {
           serve_all(bench);
           bench.advance_us(100'001);
           read(bench, 2, 1100);
           read(bench, 3, 70'000'000);
         }},
        {"the other one is seeky", true, usual, usual,
         [](BfqBench& bench) {
           for (std::uint64_t n = 1; n <= 24; ++n) read(bench, 2, 2000 + n * 900'000);
           read(bench, 2, 1100);
         }},
        {"itself seeky", true, usual, usual,
         [](BfqBench& bench) {
           for (std::uint64_t n = 1; n <= 24; ++n) read(bench, 1, 300'000 + n * 900'000);
         }},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      BfqBench bench(row.rotational);
      bench.add({.issuer = 1, .start = 90'000'000, .priority = row.first});
      bench.add({.issuer = 2, .start = 1000, .priority = row.second});
      row.between(bench);
      bench.add({.issuer = 1, .start = 1100, .priority = row.first});
      CHECK(!together(bench, 1, 2));
    }
  }

  TEST_CASE("levels do not matter, and 100 ms after its first I/O is early enough") {
    BfqBench bench(true);
    bench.add({.issuer = 1, .start = 90'000'000, .priority = IoPriority::best_effort(1)});
    read(bench, 2, 1000);
    serve_all(bench);
    bench.advance_us(100'000 - (bench.now.ns - 1'000'000'000) / 1000);
    read(bench, 2, 1100);
    read(bench, 3, 70'000'000);
    bench.add({.issuer = 1, .start = 1200, .priority = IoPriority::best_effort(1)});
    CHECK(together(bench, 1, 2));
  }

  TEST_CASE("a device without queueing: non-rotational disks have cooperation, too") {
    BfqBench bench(false);
    for (std::uint64_t n = 0; n < 60; ++n) {
      for (std::uint64_t k = 0; k < 4; ++k) read(bench, 9, n * 50'000 + k * 9000);
      if (bench.dispatch() == nullptr) bench.advance_us(8000);
      bench.complete_all();
    }
    serve_all(bench);
    read(bench, 1, 90'000'000);
    read(bench, 2, 1000);
    read(bench, 1, 1100);
    CHECK(together(bench, 1, 2));
  }

  TEST_CASE("the one in service is the partner where its last request ended") {
    BfqBench bench(true);
    read(bench, 1, 1000);
    read(bench, 1, 60'000'000);
    REQUIRE(bench.dispatch_place() == "1000");
    read(bench, 2, 90'000'000);
    read(bench, 2, 1200);  // the next one of 1 is far away
    CHECK(together(bench, 1, 2));
  }

  TEST_CASE("the others of a shared queue follow it into the next one, without a circle") {
    BfqBench bench(true);
    make_pair(bench);
    serve_all(bench);
    read(bench, 3, 3000);
    read(bench, 1, 3100);
    REQUIRE(together(bench, 1, 3));
    CHECK(!together(bench, 2, 3));
    CHECK(bench.queue(2).redirect == &bench.queue(3));
    CHECK(bench.queue(3).redirects_here == 1);
    // 3 is near to what is left of the old queue, but its own issuers come from there.
    read(bench, 3, 3110);
    CHECK(bench.queue(3).redirect == nullptr);
    read(bench, 2, 80'000'000);
    CHECK(together(bench, 2, 3));
    CHECK(bench.queue(3).redirects_here == 0);
    CHECK(bench.queue(3).contexts == 3);
    serve_all(bench);
  }

  TEST_CASE("a queue that all have left is not waited for, and not kept") {
    BfqBench bench(true);
    read(bench, 1, 0);
    read(bench, 2, 90'000'000);
    REQUIRE(bench.dispatch_issuer() == 1);
    bench.complete_all();
    REQUIRE(bench.elevator.waiting());
    const BfqQueue* const left = &bench.queue(1);
    read(bench, 1, 90'000'100);
    CHECK(together(bench, 1, 2));
    CHECK(!bench.elevator.waiting());
    CHECK(bench.elevator.in_service() == nullptr);
    CHECK(left->free.is_linked());
    CHECK(bench.dispatch_place() == "90000000");
  }

  TEST_CASE("when they go apart, one gets a queue of its own and the other one keeps the shared") {
    constexpr IoPriority kPriority = IoPriority::best_effort(2);
    BfqBench bench(true);
    const auto add = [&bench](std::uint64_t issuer, std::uint64_t start) {
      bench.add({.issuer = issuer, .start = start, .priority = kPriority});
    };
    for (std::uint64_t n = 0; n < 4; ++n) {  // 2 thinks for long
      add(2, n * 8);
      serve_all(bench);
      rest(bench, 15'000);
    }
    add(2, 50'000'000);
    REQUIRE(!bench.queue(2).short_think);
    const std::uint64_t thought = bench.queue(2).think_total;
    read(bench, 3, 90'000'000);
    read(bench, 3, 50'000'008);
    REQUIRE(together(bench, 2, 3));
    const BfqQueue& shared = bench.queue(2);
    for (std::uint64_t n = 1; n <= 40; ++n) {
      add(2, n * 10'000);
      read(bench, 3, 900'000'000 - n * 10'000);
    }
    REQUIRE(shared.seeky());
    CHECK(!shared.split_due);
    serve_all(bench);
    rest(bench, 20'000);
    CHECK(shared.split_due);
    REQUIRE(together(bench, 2, 3));
    add(2, 1);
    CHECK(&bench.queue(2) != &shared);
    CHECK(bench.queue(2).weight == 60);
    CHECK(!bench.queue(2).short_think);
    CHECK(bench.queue(2).think_total ==
          (7 * thought + 256 * std::uint64_t{16'000'000}) / 8);  // once more
    CHECK(bench.queue(3).shared);
    read(bench, 3, 600'000'000);
    CHECK(&bench.queue(3) == &shared);
    CHECK(!shared.shared);
    CHECK(!shared.split_due);
    CHECK(shared.owner != nullptr);
    CHECK(shared.base_weight == 40);
    CHECK(shared.short_think);
    CHECK(bench.elevator.counts().split == 2);
    serve_all(bench);
  }

  TEST_CASE("I20: raise, think time and weight are what they were before") {
    BfqBench bench(true);
    raise_issuers(bench);
    read(bench, 2, 128);  // both are new: interactive
    read(bench, 1, 0);
    REQUIRE(bench.queue(1).raise == 30);
    const Instant raised_at = bench.queue(1).raise_start;
    read(bench, 1, 256);
    REQUIRE(together(bench, 1, 2));
    CHECK(bench.queue(1).raise == 30);
    go_apart(bench);
    REQUIRE(bench.queue(1).split_due);
    read(bench, 1, 3);
    CHECK(!together(bench, 1, 2));
    CHECK(bench.queue(1).raise == 30);
    CHECK(bench.queue(1).weight == 1200);
    CHECK(bench.queue(1).raise_start == raised_at);
    CHECK(bench.queue(1).owner != nullptr);
    serve_all(bench);
  }

  TEST_CASE("the raise of who leaves its queue goes with it, unless there is one") {
    BfqBench bench(true);
    read(bench, 2, 128);
    raise_issuers(bench);
    read(bench, 1, 90'000'000);
    REQUIRE(bench.queue(1).raise == 30);
    REQUIRE(bench.queue(2).raise == 1);
    const BfqQueue* const left = &bench.queue(1);
    read(bench, 1, 256);
    REQUIRE(together(bench, 1, 2));
    CHECK(bench.queue(2).raise == 30);
    CHECK(left->raise == 1);
    CHECK(bench.elevator.raised_busy() == 1);
    serve_all(bench);
  }

  TEST_CASE("what several share is not raised, and nobody is within 2 s of a split") {
    BfqBench bench(true);
    make_pair(bench);
    go_apart(bench);
    raise_issuers(bench);
    rest(bench, 3'000'000);
    REQUIRE(bench.queue(2).split_due);
    read(bench, 1, 5);
    CHECK(bench.queue(1).raise == 1);  // it is split now
    serve_all(bench);
    rest(bench, 2'100'000);
    read(bench, 1, 5);
    CHECK(bench.queue(1).raise == 30);
  }

  TEST_CASE("a shared queue is raised only if it is shared for good") {
    for (const bool stable : {false, true}) {
      CAPTURE(stable);
      BfqBench bench(!stable);
      bench.elevator.join_twins(stable);
      make_pair(bench);
      serve_all(bench);
      rest(bench, 3'000'000);
      raise_issuers(bench);
      read(bench, 1, 512);
      REQUIRE(together(bench, 1, 2));
      CHECK(bench.queue(1).raise == (stable ? 30 : 1));
      serve_all(bench);
    }
  }

  TEST_CASE("who comes does not wait for what all have left") {
    BfqBench bench(true);
    read(bench, 1, 0);
    read(bench, 1, 40'000'000);
    REQUIRE(bench.dispatch_place() == "0");
    read(bench, 2, 90'000'000);
    REQUIRE(bench.elevator.better_to_idle(bench.queue(1)));
    REQUIRE(bench.expired(BfqReason::preempted) == 0);
    const BfqQueue& left = bench.queue(1);
    read(bench, 1, 90'000'100);
    REQUIRE(together(bench, 1, 2));
    REQUIRE(bench.elevator.in_service() == &left);
    CHECK(!bench.elevator.better_to_idle(left));
    read(bench, 3, 150'000'000);
    CHECK(bench.expired(BfqReason::preempted) == 1);
    serve_all(bench);
    CHECK(left.free.is_linked());
  }

  TEST_CASE("T25, non-rotational: made within 180 ms at one level, they are one from the start") {
    BfqBench bench(false);
    bench.elevator.join_twins(true);
    read(bench, 1, 0);
    bench.advance_us(60'000);
    read(bench, 2, 10'000'000);
    bench.advance_us(60'000);
    read(bench, 3, 20'000'000);
    bench.advance_us(60'000);
    read(bench, 4, 30'000'000);
    CHECK(bench.queue(1).contexts == 4);
    CHECK(together(bench, 1, 4));
    bench.add({.issuer = 5, .start = 40'000'000, .priority = IoPriority::best_effort(3)});
    CHECK(!together(bench, 4, 5));
    bench.advance_us(180'001);
    bench.add({.issuer = 6, .start = 50'000'000, .priority = IoPriority::best_effort(3)});
    CHECK(!together(bench, 5, 6));
    bench.add({.issuer = 7, .start = 60'000'000, .priority = IoPriority::best_effort(3)});
    CHECK(!together(bench, 6, 7));  // 5 is still remembered
    bench.advance_us(420'001);
    bench.add({.issuer = 8, .start = 70'000'000, .priority = IoPriority::best_effort(3)});
    bench.add({.issuer = 9, .start = 80'000'000, .priority = IoPriority::best_effort(3)});
    CHECK(together(bench, 8, 9));
    // For good, however far apart they are.
    for (std::uint64_t n = 1; n <= 24; ++n) read(bench, 1 + n % 4, n * 9'000'000);
    serve_all(bench);
    rest(bench, 20'000);
    REQUIRE(bench.queue(1).seeky());
    for (std::uint64_t issuer = 1; issuer <= 4; ++issuer) read(bench, issuer, issuer);
    CHECK(bench.queue(1).contexts == 4);
    serve_all(bench);
  }

  TEST_CASE("for good is until the issuer is forgotten") {
    BfqBench bench(false);
    bench.elevator.join_twins(true);
    read(bench, 1, 0);
    read(bench, 2, 0);
    REQUIRE(together(bench, 1, 2));
    serve_all(bench);
    bench.elevator.join_twins(false);
    rest(bench, 6'000'000);
    for (std::uint64_t issuer = 10; issuer < 72; ++issuer) read(bench, issuer, issuer * 1'000'000);
    serve_all(bench);
    rest(bench, 20'000);
    bench.limits.rotational = true;
    make_pair(bench, 80, 81);
    REQUIRE(bench.elevator.pool().capacity() == 64);  // so they have the contexts of 1 and 2
    go_apart(bench, 80, 81);
    read(bench, 80, 3);
    CHECK(!together(bench, 80, 81));
    serve_all(bench);
  }

  TEST_CASE("a queue that went to another group is not one to be merged with") {
    BfqBench bench(false);
    bench.elevator.join_twins(true);
    read(bench, 1, 0);
    REQUIRE(bench.elevator.root().last_made == &bench.queue(1));
    bench.add({.issuer = 1, .start = 8, .group = bench.group("/a")});
    CHECK(bench.elevator.root().last_made == nullptr);
    read(bench, 2, 16);
    CHECK(!together(bench, 1, 2));
    serve_all(bench);
  }

  TEST_CASE("an issuer that changes its group leaves a shared queue") {
    BfqBench bench(true);
    make_pair(bench);
    const BfqQueue* const shared = &bench.queue(1);
    bench.add({.issuer = 1, .start = 300, .group = bench.group("/a")});
    CHECK(!together(bench, 1, 2));
    CHECK(&bench.queue(2) == shared);
    CHECK(bench.queue(1).above == bench.elevator.group(bench.group("/a")));
    serve_all(bench);
  }

  TEST_CASE("T25, rotational: after 600 ms, unless waiting for it brings more") {
    for (const bool random : {true, false}) {
      CAPTURE(random);
      BfqBench bench(true);
      bench.elevator.join_twins(true);
      std::uint64_t count = 0;
      const auto next = [&](std::uint64_t issuer) {
        ++count;
        read(bench, issuer,
             issuer * 40'000'000 + (random ? (count * 7'777'777) % 30'000'000 : count * 8));
      };
      next(1);
      next(2);
      const auto serve = [&] {
        const std::uint64_t issuer = bench.dispatch_late().issuer;
        bench.advance_us(3000);
        bench.complete_all();
        next(issuer);
      };
      const Instant made = bench.now;
      while (bench.now < made + Duration{590'000'000}) {
        serve();
        REQUIRE(!together(bench, 1, 2));
      }
      while (bench.now < made + Duration{900'000'000}) serve();
      CHECK(together(bench, 1, 2) == random);
      CHECK(bench.queue(2).twin == nullptr);
      CHECK(bench.queue(1).twins == 0);
    }
  }

  TEST_CASE("an issuer that is forgotten leaves the queue to the others") {
    BfqBench bench(true);
    make_pair(bench);
    serve_all(bench);
    rest(bench, 6'000'000);
    read(bench, 2, 512);
    serve_all(bench);
    for (std::uint64_t issuer = 10; issuer < 73; ++issuer) read(bench, issuer, issuer * 1'000'000);
    CHECK(bench.elevator.queue_of(1) == nullptr);
    CHECK(bench.queue(2).contexts == 1);
    serve_all(bench);
  }
}
