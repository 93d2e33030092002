// SPDX-License-Identifier: Apache-2.0
// What the worked examples leave: depth, contended merging, switches, timers.
#include "sched/mq_deadline.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <string>

#include "mq_deadline_bench.hpp"
#include "writers.hpp"

using namespace elevd::sched;
using elevd::sched::test::Bench;
using elevd::sched::test::MqDeadlineBench;

namespace {

std::string writes(unsigned n) { return test::series('W', 100000, 8, 100, n); }
std::string reads(unsigned n) { return test::series('R', 200000, 8, 100, n); }

}  // namespace

TEST_SUITE("mq-deadline") {
  TEST_CASE("contended bio merges are made up for: no more requests than without contention") {
    for (const std::uint32_t nr_requests : {256U, 8U}) {
      CAPTURE(nr_requests);
      const auto run = [nr_requests](bool contended, bool held) {
        MqDeadlineBench deadline({.depth = 4, .nr_requests = nr_requests});
        const test::Written written = test::run_writers(
            deadline.bench, {.words = "/sync", .contended = contended, .held = held});
        deadline.elevator->check();
        return written;
      };
      const test::Written free = run(false, false);
      const test::Written contended = run(true, false);
      MESSAGE("requests for 2048 writes: ", free.requests, ", contended: ", contended.requests);
      CHECK(free.requests < 512);
      CHECK(contended.requests <= free.requests);
      CHECK(contended.took <= free.took);
      if (nr_requests < 64) continue;
      const test::Written held = run(false, true);
      CHECK(held.requests <= free.requests);
      CHECK(held.took <= free.took);
    }
  }

  TEST_CASE("a lookup that was left out is made at insertion, that in front, too") {
    const struct {
      const char* queued;
      const char* bio;
      const char* dispatched;
    } rows[] = {
        {"R1008", "R1000", "R1000+16"},
        // Behind one that begins within it; the last merge is another one.
        {"R5000 R1016 R1008+4", "R1000+16", "R1000+24 R1008+4 R5000+8"},
    };
    for (const auto& row : rows) {
      CAPTURE(row.bio);
      MqDeadlineBench deadline({.depth = 4, .nr_requests = 256});
      test::Bench& bench = deadline.bench;
      bench.driver().slots = 0;
      bench.each(row.queued);
      {
        const LockGuard guard(QueueTest::elevator_lock(bench.queue()));
        bench.submit("R9000");  // contended: the next ones are not looked for either
      }
      bench.flush_plug();
      bench.burst(row.bio);
      CHECK(bench.stats().merge_skips == 2);
      bench.lift_refusals();
      bench.settle();
      CHECK(bench.issued() == std::string(row.dispatched) + " R9000+8");
    }
  }

  TEST_CASE("with nothing queued nobody looks") {
    MqDeadlineBench deadline;
    deadline.play("R100 | R200 | R300 |");
    const Stats stats = deadline.bench.stats();
    CHECK(stats.merge_attempts[static_cast<unsigned>(MergePoint::bio_merge)] == 0);
  }

  TEST_CASE("admission by the table of docs/spec/mq-deadline.md 8.2") {
    struct Row {
      std::uint32_t async_depth;
      std::string first, second;
      std::uint32_t held_first, held;
    };
    const Row rows[] = {
        {2, writes(6), reads(8), 2, 8},  {2, reads(3), writes(6), 3, 3},
        {8, writes(10), reads(3), 8, 8}, {1, writes(3), reads(3), 1, 4},
        {7, writes(10), reads(3), 7, 8}, {3, reads(8), writes(3), 8, 8},
    };
    for (const Row& row : rows) {
      CAPTURE(row.async_depth);
      CAPTURE(row.first);
      MqDeadlineBench deadline({.depth = 128, .nr_requests = 256});
      RequestQueue& queue = deadline.bench.queue();
      queue.set_nr_requests(8, std::make_unique<TagMap>(8, 8, 1));
      REQUIRE(queue.set_async_depth(row.async_depth));
      CHECK(queue.allocation_tags().min_shallow_depth() == row.async_depth);
      deadline.bench.each(row.first);
      CHECK(queue.allocation_tags().bitmap().busy() == row.held_first);
      deadline.bench.each(row.second);
      CHECK(queue.allocation_tags().bitmap().busy() == row.held);
    }
  }

  TEST_CASE("async_depth: at most nr_requests, scaled with it, in the wake batch") {
    MqDeadlineBench deadline;
    RequestQueue& queue = deadline.bench.queue();
    CHECK(queue.async_depth() == 256);
    CHECK(queue.allocation_tags().wake_batch() == 8);
    CHECK(queue.set_async_depth(1));
    CHECK(queue.allocation_tags().wake_batch() == 1);
    queue.set_nr_requests(2048);
    CHECK(queue.async_depth() == 8);
    CHECK(queue.allocation_tags().depth() == 2048);
    CHECK(queue.allocation_tags().min_shallow_depth() == 8);
    CHECK(queue.set_async_depth(5000));
    CHECK(queue.async_depth() == 2048);
    queue.set_nr_requests(64);
    CHECK(queue.async_depth() == 64);
    Bench none;
    CHECK_FALSE(none.queue().set_async_depth(4));
  }

  TEST_CASE("a switch starts with a fresh scheduler, and gives the old one back") {
    MqDeadlineBench deadline;
    deadline.play("R5000 R6000 | W100 |");
    RequestQueue& queue = deadline.bench.queue();
    deadline.set("fifo_batch=1");
    CHECK(deadline.elevator->batching() == 1);
    auto next = queue.prepare(std::make_unique<MqDeadline>());
    auto* fresh = static_cast<MqDeadline*>(next.elevator.get());
    const RequestQueue::Attachment old = queue.attach(std::move(next));
    CHECK(old.elevator.get() == deadline.elevator);
    CHECK(old.tags->depth() == 256);
    CHECK(fresh->batching() == 0);
    CHECK(fresh->tunables().fifo_batch == 16);
    CHECK(queue.nr_requests() == 256);
    deadline.elevator = fresh;
  }

  TEST_CASE("the completion of the last of a class lets the next class go, without a timer") {
    MqDeadlineBench deadline({.depth = 4});
    deadline.play("R100/RT ; R200 ; R300/ID ;");
    CHECK(deadline.dispatched == "R100/RT ");
    deadline.play("!");
    CHECK(deadline.dispatched == "R100/RT R200 ");
    deadline.play("!");
    CHECK(deadline.dispatched == "R100/RT R200 R300/ID ");
  }

  TEST_CASE("a class held back is asked again when its request has aged") {
    MqDeadlineBench deadline({.depth = 4});
    deadline.set("prio_aging_expire=100");
    deadline.play("R100/RT ; R200 ;");
    Bench& bench = deadline.bench;
    REQUIRE(bench.queue().wake_at().has_value());
    CHECK(*bench.queue().wake_at() == deadline.begin + Duration{110'000'000});
    CHECK(bench.worker().wake_at == bench.queue().wake_at());
    bench.advance(*bench.queue().wake_at() - bench.now());
    bench.queue().run(bench.worker());
    CHECK(deadline.dispatched == "R100/RT R200 ");
    CHECK_FALSE(bench.queue().wake_at().has_value());
  }

  TEST_CASE("a worker whose clock is behind does not make a request wait") {
    MqDeadlineBench deadline({.depth = 4, .workers = 2});
    Bench& bench = deadline.bench;
    bench.worker(0).now = bench.now() + Duration{1'000'000};
    bench.queue().quiesce();
    bench.burst("R100", 0);
    bench.queue().unquiesce(bench.worker(1));
    CHECK(deadline.dispatched == "R100 ");
  }

  TEST_CASE("lowering an expire value does not stall what is queued (a decided difference)") {
    MqDeadlineBench deadline({.depth = 4});
    deadline.play("R60000 R60100 R60200 R60300 R60400 ; W1000 ;");
    deadline.set("write_expire=1000");
    deadline.play("*");
    CHECK(deadline.dispatched == "R60000 R60100 R60200 R60300 R60400 W1000 ");
  }

  TEST_CASE("counters of the debug tree") {
    MqDeadlineBench deadline({.depth = 4});
    deadline.play("R1000 R2000 R3000 R4000 R5000 R6000 ; W7000 ; W7008 ; R8000/RT ;");
    CHECK(deadline.elevator->queued(0) == 1);
    CHECK(deadline.elevator->queued(1) == 7);
    CHECK(deadline.elevator->owned_by_driver(1) == 5);
    CHECK(deadline.elevator->fifo(1, 1).size() == 1);
    CHECK(deadline.bench.queue().view_busy().size() == 4);
    CHECK(deadline.bench.queue().view_residual().size() == 1);
    CHECK(deadline.bench.queue().view_sched_tags().busy == 8);
    deadline.bench.release_all();
    CHECK(deadline.elevator->queued(1) == 0);
    CHECK(deadline.elevator->owned_by_driver(1) == 0);
    CHECK(deadline.bench.queue().view_busy().empty());
  }
}
