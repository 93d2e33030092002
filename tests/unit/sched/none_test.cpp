// SPDX-License-Identifier: Apache-2.0
// Scheduler none: docs/spec/none.md.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "bench.hpp"

using namespace elevd::sched;
using elevd::sched::test::Bench;

namespace {

/// Two software queues, A B of worker 0 and C D of worker 1, and nothing at the device.
struct TwoSoftwareQueues {
  Bench bench{Bench::Options{.workers = 2}};
  TwoSoftwareQueues() {
    bench.driver(0).slots = bench.driver(1).slots = 0;
    for (unsigned w = 0; w < 2; ++w) {
      bench.submit(w == 0 ? "R1000 R2000" : "R3000 R4000", w);
      bench.worker(w).flush_plug(true);
    }
    REQUIRE(bench.issued() == "");
  }
};

}  // namespace

TEST_SUITE("none") {
  TEST_CASE("worked example 1: issued as submitted") {
    Bench bench;
    bench.burst("R5000 W1000 R3000 W2000 R4000");
    CHECK(bench.issued() == "R5000+8 W1000+8 R3000+8 W2000+8 R4000+8");
    CHECK(bench.count('I') == 0);
  }

  TEST_CASE("worked example 2: only the last plugged one is tried") {
    Bench bench;
    bench.burst("W1000 W1008 W1016 R1024 W5000 W992 W5008");
    CHECK(bench.issued() == "W1000+24 R1024+8 W5000+8 W992+8 W5008+8");
  }

  TEST_CASE("worked example 3: front merges") {
    Bench bench;
    bench.burst("W1008 W1000 W992");
    CHECK(bench.issued() == "W992+24");
  }

  TEST_CASE("worked example 4: depth 4, the fifth and sixth after completions") {
    Bench bench({.depth = 4});
    bench.burst("R9000 R1000 R8000 R2000 R7000 R3000");
    CHECK(bench.issued() == "R9000+8 R1000+8 R8000+8 R2000+8");
    CHECK(bench.queue().hardware_tags().parked() == 2);
    bench.complete();
    bench.settle();
    CHECK(bench.issued() == "R9000+8 R1000+8 R8000+8 R2000+8 R7000+8");
    bench.complete();
    bench.settle();
    CHECK(bench.issued() == "R9000+8 R1000+8 R8000+8 R2000+8 R7000+8 R3000+8");
  }

  TEST_CASE("worked example 5: software queues, not busy: worker order, each first in first out") {
    TwoSoftwareQueues two;
    CHECK(two.bench.queue().dispatch_busy() == 0);
    two.bench.driver(0).slots = two.bench.driver(1).slots = 100;
    two.bench.queue().run(two.bench.worker(1));
    CHECK(two.bench.issued() == "R1000+8 R2000+8 R3000+8 R4000+8");
  }

  TEST_CASE("worked example 6: the same when busy: one each, after the one served last") {
    TwoSoftwareQueues two;
    // A direct issue without room sets the busy mark; its request goes behind A B.
    two.bench.burst("R9000", 0);
    CHECK(two.bench.queue().dispatch_busy() != 0);
    two.bench.driver(0).slots = two.bench.driver(1).slots = 100;
    two.bench.queue().run(two.bench.worker(0));
    CHECK(two.bench.issued() == "R3000+8 R1000+8 R4000+8 R2000+8 R9000+8");
  }

  TEST_CASE("priority and operation never reorder") {
    Bench bench;
    bench.burst("R5000/IDLE R1000/RT R3000/BE F W2000/RT0");
    CHECK(bench.issued() == "F R5000+8 R1000+8 R3000+8 W2000+8");
  }

  TEST_CASE("a refused request goes to the residual list, the rest to the software queue") {
    Bench bench;
    bench.driver().refuse = 100;
    bench.burst("R1000 R2000 R3000");
    CHECK(bench.issued() == "");
    CHECK(bench.events("IR").find("I R2000+8, I R3000+8") != std::string::npos);
    bench.submit("R4000");  // newer than the refused one: not before it
    bench.lift_refusals();
    bench.settle();
    CHECK(bench.issued() == "R1000+8 R2000+8 R3000+8 R4000+8");
  }

  TEST_CASE("what is refused in the middle of a plug stays in order") {
    for (unsigned accepted = 0; accepted < 5; ++accepted) {
      CAPTURE(accepted);
      Bench bench;
      bench.driver().slots = accepted;
      bench.burst("R1000 R2000 R3000 R4000 R5000");
      CHECK(bench.held.size() == accepted);
      bench.lift_refusals();
      bench.settle();
      CHECK(bench.issued() == "R1000+8 R2000+8 R3000+8 R4000+8 R5000+8");
    }
  }

  TEST_CASE("what is refused again goes before what was left in the residual list") {
    Bench bench;
    bench.driver().refuse =
        2;  // issued directly, and by the run that follows: all four are residual
    bench.burst("R1000 R2000 R3000 R4000");
    bench.lift_refusals();
    bench.driver().slots = 2;
    bench.driver().refuse = 1;
    bench.settle();
    CHECK(bench.issued() == "");
    bench.lift_refusals();
    bench.settle();
    CHECK(bench.issued() == "R1000+8 R2000+8 R3000+8 R4000+8");
  }

  TEST_CASE("the busy mark saturates at 9 and is gone after successes") {
    Bench bench;
    bench.driver().refuse = 1000;
    for (unsigned n = 0; n < 20; ++n) bench.burst("R" + std::to_string(n * 100));
    CHECK(bench.queue().dispatch_busy() == 9);
    bench.driver().refuse = 0;
    bench.lift_refusals();
    bench.settle();
    CHECK(bench.queue().dispatch_busy() == 0);
    CHECK(bench.held.size() == 20);
  }

  TEST_CASE("bios merge into the software queue while it holds something") {
    struct Row {
      const char* what;
      unsigned nomerges;
      const char *queued, *bio, *events;
    };
    const Row rows[] = {
        {"back", 0, "R1000 R5000", "R1008", "M R1008+8"},
        {"front", 0, "R1000 R5000", "R992", "F R992+8"},
        {"nomerges 1", 1, "R1000 R5000", "R1008", "M R1008+8"},
        {"nomerges 2", 2, "R1000 R5000", "R1008", ""},
        {"the eighth from behind", 0, "R1000 R2000 R3000 R4000 R5000 R6000 R7000 R8000", "R1008",
         "M R1008+8"},
        {"the ninth", 0, "R1000 R2000 R3000 R4000 R5000 R6000 R7000 R8000 R9000", "R1008", ""},
        {"an adjacent one at its limit ends the search", 0, "R1000 R1016+2560", "R1008", ""},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      Bench bench;
      bench.queue().set_nomerges(row.nomerges);
      bench.driver().slots = 0;
      bench.submit(row.queued);
      bench.worker().flush_plug(true);
      bench.submit(row.bio);
      CHECK(bench.events("MF") == row.events);
    }
  }

  TEST_CASE("no bio merges into another worker's software queue") {
    Bench bench({.workers = 2});
    bench.driver(0).slots = bench.driver(1).slots = 0;
    bench.burst("R1000", 0);
    bench.burst("R1008", 1);
    CHECK(bench.count('M') == 0);
  }

  TEST_CASE(
      "a plug flushed because a bio is parked is not issued directly but dispatched at once") {
    Bench bench({.depth = 4});
    bench.burst("R1000 R2000 R3000 R4000 R5000");
    CHECK(bench.events("UI") == "U4, I R1000+8, I R2000+8, I R3000+8, I R4000+8");
    CHECK(bench.issued() == "R1000+8 R2000+8 R3000+8 R4000+8");
  }

  TEST_CASE("in flight never exceeds the depth, and every request has a tag of its own") {
    Bench bench({.workers = 2, .depth = 7});
    std::size_t most = 0;
    bench.on_issue = [&](const Request&) { most = std::max(most, bench.held.size() + 1); };
    for (unsigned n = 0; n < 50; ++n) bench.burst("W" + std::to_string(n * 100), n % 2);
    for (unsigned n = 0; n < 50; ++n) {
      std::set<int> tags;
      for (const Request* rq : bench.held) {
        CHECK(rq->internal_tag == -1);
        CHECK(rq->tag >= 0);
        CHECK(rq->tag < 7);
        tags.insert(rq->tag);
      }
      CHECK(tags.size() == bench.held.size());
      bench.complete();
      bench.settle();
    }
    CHECK(most == 7);
    CHECK(bench.held.empty());
    CHECK(bench.issued_log.size() == 50);
  }

  TEST_CASE("a dispatcher issues so many requests a turn and goes on in its next") {
    constexpr unsigned kRequests = 2 * kDispatchesPerTurn + 22;
    Bench bench({.depth = 1024});
    bench.driver().slots = 0;
    for (unsigned n = 0; n < kRequests; ++n) bench.burst("R" + std::to_string(n * 100));
    bench.driver().slots = 2000;
    bench.queue().run(bench.worker());
    CHECK(bench.held.size() == kDispatchesPerTurn);
    CHECK(bench.worker().has_work());
    bench.queue().run(
        bench.worker());  // a run asked for meanwhile is not lost, and not a second one
    CHECK(bench.held.size() == kDispatchesPerTurn);
    bench.worker().run_queues();
    CHECK(bench.held.size() == 2 * kDispatchesPerTurn);
    bench.worker().run_queues();
    CHECK(bench.held.size() == kRequests);
    CHECK_FALSE(bench.worker().has_work());
    bench.burst("R99999");
    CHECK(bench.held.size() == kRequests + 1);
  }

  TEST_CASE("quiesced: bios are admitted and inserted, nothing is dispatched") {
    Bench bench({.workers = 2});
    bench.queue().quiesce();
    bench.burst("R3000 R4000", 1);
    bench.burst("R1000 F", 0);
    bench.settle();
    CHECK(bench.queue().quiesced());
    CHECK(bench.issued() == "");
    CHECK(bench.queue().inside() == 4);
    CHECK_FALSE(bench.queue().idle());
    bench.queue().unquiesce(bench.worker());
    CHECK_FALSE(bench.queue().quiesced());
    // A FLUSH was on the residual list: one request of each software queue in turn, beginning after
    // the one served last.
    CHECK(bench.issued() == "F R3000+8 R1000+8 R4000+8");
  }

  TEST_CASE("nr_requests and async_depth of a queue without a scheduler") {
    Bench bench({.depth = 128});
    RequestQueue& queue = bench.queue();
    CHECK(queue.scheduler() == "none");
    CHECK(queue.nr_requests() == 128);
    CHECK(queue.async_depth() == 128);
    CHECK(queue.max_requests() == 128);
    queue.set_nr_requests(4);
    CHECK(queue.nr_requests() == 4);
    CHECK(queue.async_depth() == 4);
    CHECK(queue.hardware_tags().depth() == 4);
    CHECK(queue.hardware_tags().wake_batch() == 1);
    bench.burst("R0 R100 R200 R300 R400");
    CHECK(bench.held.size() == 4);
    bench.drain();
    queue.set_nr_requests(128);
    CHECK(queue.hardware_tags().depth() == 128);
    CHECK(queue.hardware_tags().wake_batch() == 8);
  }
}
