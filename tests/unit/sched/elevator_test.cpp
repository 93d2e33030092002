// SPDX-License-Identifier: Apache-2.0
// The two tag spaces and what is around an elevator: docs/spec/tags-and-depth.md sections 1, 2, 7.
#include "sched/elevator.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "fifo_bench.hpp"

using namespace elevd::sched;
using namespace elevd::sched::literals;
using elevd::sched::test::Bench;
using elevd::sched::test::FifoBench;
using elevd::sched::test::FifoElevator;
using elevd::sched::test::series;

TEST_SUITE("elevator") {
  TEST_CASE("a queue that is taken out is run no more by a worker that had noted it") {
    Bench bench;
    bench.queue().run_later(bench.worker());
    CHECK(bench.worker().has_work());
    bench.queue().drop_run(bench.worker());
    CHECK_FALSE(bench.worker().has_work());
    bench.queue().drop_run(bench.worker());
  }

  TEST_CASE("a scheduler has tags of its own: twice the hardware depth, at most 256") {
    struct Row {
      std::uint32_t depth, nr_requests;
    };
    for (const Row& row : {Row{128, 256}, Row{32, 64}, Row{1000, 256}, Row{4, 8}}) {
      CAPTURE(row.depth);
      FifoBench fifo({}, row.depth);
      RequestQueue& queue = fifo.bench.queue();
      CHECK(queue.scheduler() == "fifo");
      CHECK(queue.nr_requests() == row.nr_requests);
      CHECK(queue.async_depth() == row.nr_requests);
      CHECK(fifo.elevator->nr_requests == row.nr_requests);
      CHECK(queue.max_requests() == 2048);
      CHECK(queue.allocation_tags().depth() == row.nr_requests);
      CHECK(queue.hardware_tags().depth() == row.depth);
      queue.set_elevator(nullptr);
      CHECK(queue.scheduler() == "none");
      CHECK(queue.nr_requests() == row.depth);
      CHECK(&queue.allocation_tags() == &queue.hardware_tags());
      auto again = std::make_unique<FifoElevator>(fifo.fifo);
      queue.set_elevator(std::move(again));
    }
  }

  TEST_CASE("nr_requests scales async_depth, down to 1, and sets the wake batch") {
    FifoBench fifo({}, 128);
    RequestQueue& queue = fifo.bench.queue();
    struct Row {
      std::uint32_t nr, async, wake_batch;
    };
    for (const Row& row : {Row{64, 64, 8}, Row{20, 20, 2}, Row{2048, 2048, 8}, Row{4, 4, 1}}) {
      CAPTURE(row.nr);
      queue.set_nr_requests(row.nr);
      CHECK(queue.nr_requests() == row.nr);
      CHECK(queue.async_depth() == row.async);
      CHECK(fifo.elevator->async_depth == row.async);
      CHECK(queue.allocation_tags().depth() == row.nr);
      CHECK(queue.allocation_tags().wake_batch() == row.wake_batch);
      CHECK(queue.hardware_tags().depth() == 128);
    }
  }

  TEST_CASE("what the elevator says is its smallest depth enters the wake batch") {
    FifoElevator::Options options;
    options.async_shallow = 1;
    FifoBench fifo(options, 128);
    CHECK(fifo.bench.queue().allocation_tags().min_shallow_depth() == 1);
    CHECK(fifo.bench.queue().allocation_tags().wake_batch() == 1);
  }

  TEST_CASE("leaving none with a lowered depth brings the hardware depth back") {
    const FifoElevator::Options options;
    Bench bench({.depth = 128});
    bench.queue().set_nr_requests(8);
    bench.queue().set_elevator(std::make_unique<FifoElevator>(options));
    CHECK(bench.queue().nr_requests() == 256);
    CHECK(bench.queue().hardware_tags().depth() == 128);
  }

  TEST_CASE("a request has a hardware tag from dispatch to completion, a scheduler tag all along") {
    FifoBench fifo;
    TagMap& hardware = fifo.bench.queue().hardware_tags();
    TagMap& sched = fifo.bench.queue().allocation_tags();
    fifo.fifo.hold = true;
    fifo.bench.burst("R0 R100");
    CHECK(hardware.bitmap().busy() == 0);
    CHECK(sched.bitmap().busy() == 2);
    fifo.fifo.hold = false;
    fifo.bench.queue().run(fifo.bench.worker());
    CHECK(hardware.bitmap().busy() == 2);
    for (const Request* rq : fifo.bench.held) {
      CHECK(rq->tag >= 0);
      CHECK(rq->internal_tag >= 0);
    }
    fifo.bench.complete();
    CHECK(hardware.bitmap().busy() == 1);
    CHECK(sched.bitmap().busy() == 1);
  }

  TEST_CASE("events: inserted, then issued") {
    FifoBench fifo;
    fifo.bench.burst("R0 R100");
    CHECK(fifo.bench.events("GPUID") ==
          "G R0+8, P, G R100+8, U2, I R0+8, I R100+8, D R0+8, D R100+8");
  }

  TEST_CASE("the tag is taken after the pull: one request of look-ahead") {
    FifoBench fifo;  // 4 hardware tags, 8 requests
    fifo.bench.burst(series('W', 0, 8, 100, 8));
    CHECK(fifo.bench.held.size() == 4);
    CHECK(fifo.elevator->dispatch_calls == 5);  // the fifth is stranded outside
    // While the residual list holds something, the elevator is not asked.
    fifo.bench.queue().run(fifo.bench.worker());
    CHECK(fifo.elevator->dispatch_calls == 5);
    // A tag that is freed restarts the queue.
    fifo.bench.complete();
    CHECK(fifo.bench.worker().has_work());
    CHECK(fifo.bench.held.size() == 3);  // but not from inside the completion
    fifo.bench.settle();
    CHECK(fifo.bench.held.size() == 4);
    CHECK(fifo.elevator->dispatch_calls == 6);
    fifo.bench.drain();
    CHECK(fifo.bench.issued() == "W0+8 W100+8 W200+8 W300+8 W400+8 W500+8 W600+8 W700+8");
  }

  TEST_CASE("a tag that nobody waits for restarts nothing") {
    FifoBench fifo;
    fifo.bench.burst("W0 W100");
    fifo.bench.complete();
    CHECK(fifo.bench.worker().runs.empty());
  }

  TEST_CASE("who completes restarts the queue, whoever was refused the tag") {
    FifoBench fifo({}, 4, 2);
    fifo.bench.burst(series('W', 0, 8, 100, 6), 0);
    fifo.bench.complete(0, 1);
    CHECK(fifo.bench.worker(0).runs.empty());
    CHECK_FALSE(fifo.bench.worker(1).runs.empty());
    fifo.bench.turn(1);
    CHECK(fifo.bench.held.size() == 4);
  }

  TEST_CASE("nr_requests limits what is allocated, queued and in flight") {
    FifoBench fifo;
    fifo.fifo.hold = true;
    fifo.bench.burst(series('W', 0, 8, 100, 10));
    CHECK(fifo.bench.queue().allocation_tags().bitmap().busy() == 8);
    CHECK(fifo.bench.queue().allocation_tags().parked() == 2);
  }

  TEST_CASE("a plug is inserted as a whole when a bio has to park") {
    FifoBench fifo;
    fifo.bench.submit(series('W', 0, 8, 100, 9));
    CHECK(fifo.bench.events("UI").find("U8, I W0+8, I W100+8") == 0);
    CHECK(fifo.bench.held.size() == 4);
  }

  TEST_CASE("requests merged at insertion give their tags back, their bios are answered") {
    FifoElevator::Options options;
    options.merges = true;
    options.hold = true;
    FifoBench fifo(options);
    fifo.bench.burst("R0 R1000 R8 R1008");
    CHECK(fifo.bench.count('m') == 2);
    CHECK(fifo.bench.queue().allocation_tags().bitmap().busy() == 2);
    fifo.fifo.hold = false;
    fifo.bench.queue().run(fifo.bench.worker());
    CHECK(fifo.bench.issued() == "R0+16 R1000+16");
    fifo.bench.drain();
    CHECK(fifo.bench.answered() == "R0 R8 R1000 R1008");
    CHECK(fifo.elevator->completed_calls == 2);
  }

  TEST_CASE("tags given back by a merge wake who waits for them") {
    FifoElevator::Options options;
    options.merges = true;
    options.hold = true;
    FifoBench fifo(options);  // 8 tags
    fifo.bench.burst(series('R', 0, 8, 100, 7));
    fifo.bench.burst("R5000 R8");  // the second parks; nothing merges with the first
    CHECK(fifo.bench.queue().allocation_tags().parked() == 0);
    CHECK(fifo.bench.events("M") == "M R8+8");
    fifo.bench.burst("R7000");
    CHECK(fifo.bench.queue().allocation_tags().parked() == 1);
    fifo.fifo.hold = false;
    fifo.bench.queue().run(fifo.bench.worker());
    fifo.bench.drain();
    CHECK(fifo.bench.answered_log.size() == 10);
  }

  TEST_CASE("a bio joins a queued request before it takes a tag") {
    FifoElevator::Options options;
    options.merges = true;
    options.hold = true;
    FifoBench fifo(options);
    fifo.bench.burst("R1000");
    fifo.bench.burst("R1008");
    fifo.bench.burst("R992");
    CHECK(fifo.bench.events("MF") == "M R1008+8, F R992+8");
    CHECK(fifo.bench.queue().allocation_tags().bitmap().busy() == 1);
    const Stats stats = fifo.bench.stats();
    CHECK(stats.merge_hits[static_cast<unsigned>(MergePoint::bio_merge)] == 2);
    fifo.bench.queue().set_nomerges(2);
    fifo.bench.burst("R1016");
    CHECK(fifo.bench.count('M') == 1);
    fifo.bench.queue().set_nomerges(0);
  }

  TEST_CASE("nobody joins a request that was given to the driver") {
    FifoElevator::Options options;
    options.merges = true;
    FifoBench fifo(options);
    fifo.bench.burst("R1000");
    fifo.bench.burst("R1008");
    CHECK(fifo.bench.count('M') == 0);
    CHECK(fifo.bench.issued() == "R1000+8 R1008+8");
  }

  TEST_CASE("the elevator may veto a plug merge") {
    FifoElevator::Options options;
    options.veto = true;
    FifoBench fifo(options);
    fifo.bench.burst("R1000 R1008");
    CHECK(fifo.bench.issued() == "R1000+8 R1008+8");
  }

  TEST_CASE("a request at head goes before everything queued") {
    FifoElevator::Options options;
    options.hold = true;
    FifoBench fifo(options);
    fifo.bench.burst("R1000 R2000");
    fifo.bench.burst("R3000/head");
    fifo.fifo.hold = false;
    fifo.bench.queue().run(fifo.bench.worker());
    CHECK(fifo.bench.issued() == "R3000+8 R1000+8 R2000+8");
  }

  TEST_CASE("a completion the elevator waits for makes it be asked again") {
    FifoElevator::Options options;
    options.most_out = 1;
    FifoBench fifo(options);
    fifo.bench.burst("R1000 R2000 R3000");
    CHECK(fifo.bench.issued() == "R1000+8");
    fifo.bench.complete();
    fifo.bench.settle();
    CHECK(fifo.bench.issued() == "R1000+8 R2000+8");
  }

  TEST_CASE("a timer of the elevator bounds the worker's sleep") {
    FifoElevator::Options options;
    options.hold = true;
    options.wake_at = Instant{5'000'000'000};
    FifoBench fifo(options);
    fifo.bench.burst("R1000");
    REQUIRE(fifo.bench.worker().wake_at.has_value());
    CHECK(*fifo.bench.worker().wake_at == Instant{5'000'000'000});
    fifo.bench.worker().bound_sleep(Instant{6'000'000'000});
    CHECK(*fifo.bench.worker().wake_at == Instant{5'000'000'000});
  }

  TEST_CASE("a request the driver refuses is issued first when it has room") {
    FifoBench fifo;
    fifo.bench.driver().refuse = 1;
    fifo.bench.burst("R1000 R2000 R3000");
    CHECK(fifo.bench.count('R') == 1);
    fifo.bench.lift_refusals();
    fifo.bench.settle();
    CHECK(fifo.bench.issued() == "R1000+8 R2000+8 R3000+8");
  }

  TEST_CASE("refused requests keep no hardware tag: a FLUSH before them needs one") {
    FifoBench fifo;
    fifo.bench.driver().refuse = 1;
    fifo.bench.burst(series('W', 0, 8, 100, 4));
    CHECK(fifo.bench.queue().hardware_tags().bitmap().busy() == 0);
    fifo.bench.driver().refuse = 1;
    fifo.bench.burst("F");
    fifo.bench.lift_refusals();
    fifo.bench.settle();
    CHECK(fifo.bench.issued() == "F W0+8 W100+8 W200+8");
  }

  TEST_CASE("no room: nothing is pulled out of the elevator") {
    FifoBench fifo;
    fifo.bench.driver().slots = 0;
    fifo.bench.burst("R1000 R2000");
    CHECK(fifo.elevator->dispatch_calls == 0);
    fifo.bench.driver().slots = 1;
    fifo.bench.queue().run(fifo.bench.worker());
    CHECK(fifo.elevator->dispatch_calls == 1);
  }

  TEST_CASE("flushes with a scheduler: FLUSH goes round it, data through it") {
    struct Row {
      const char* bio;
      const char* events;
      unsigned completed;
    };
    const Row rows[] = {
        {"F", "D F, C F", 0},
        {"W0/fua", "I W0+8, D W0+8, C W0+8, D F, C F", 1},
        {"W0/preflush", "D F, C F, I W0+8, D W0+8, C W0+8", 1},
        {"W0/preflush/fua", "D F, C F, I W0+8, D W0+8, C W0+8, D F, C F", 1},
    };
    for (const Row& row : rows) {
      CAPTURE(row.bio);
      FifoBench fifo;
      auto& bio = fifo.bench.burst(row.bio);
      while (!fifo.bench.held.empty()) {
        CHECK(fifo.bench.queue().hardware_tags().bitmap().busy() == 1);
        fifo.bench.complete();
        fifo.bench.settle();
      }
      CHECK(fifo.bench.events("IDC") == row.events);
      CHECK(fifo.elevator->completed_calls == row.completed);
      CHECK(bio.answers == 1);
      CHECK(fifo.bench.queue().allocation_tags().bitmap().busy() == 0);
      CHECK(fifo.bench.queue().hardware_tags().bitmap().busy() == 0);
    }
  }

  TEST_CASE("a FLUSH goes before the residual request, when the device has a tag") {
    FifoBench fifo;
    fifo.bench.burst(series('W', 0, 8, 100, 6));
    fifo.bench.burst("F");
    CHECK(fifo.bench.held.size() == 4);
    fifo.bench.complete();
    fifo.bench.settle();
    CHECK(fifo.bench.issued() == "W0+8 W100+8 W200+8 W300+8 F");
  }

  TEST_CASE("flushes are not limited by a shallow depth") {
    FifoElevator::Options options;
    options.async_shallow = 1;
    FifoBench fifo(options);
    fifo.bench.burst("W0 W100");
    CHECK(fifo.bench.queue().allocation_tags().parked() == 1);
    fifo.bench.burst("F");
    CHECK(fifo.bench.issued() == "W0+8 F");
  }

  TEST_CASE("several workers insert and whoever runs dispatches all") {
    FifoElevator::Options options;
    options.hold = true;
    FifoBench fifo(options, 16, 3);
    for (unsigned w = 0; w < 3; ++w) fifo.bench.burst(series('W', w * 1000, 8, 100, 3), w);
    fifo.fifo.hold = false;
    fifo.bench.queue().run(fifo.bench.worker(1));
    CHECK(fifo.bench.held.size() == 9);
    std::set<int> tags;
    for (const Request* rq : fifo.bench.held) tags.insert(rq->tag);
    CHECK(tags.size() == 9);
  }
}
