// SPDX-License-Identifier: Apache-2.0
// Bios that wait, for a tag or at the gate: docs/spec/tags-and-depth.md sections 3, 8.
#include <doctest/doctest.h>

#include <cerrno>
#include <string>

#include "bench.hpp"
#include "fifo_elevator.hpp"

using namespace elevd::sched;
using elevd::sched::test::Bench;
using elevd::sched::test::FifoElevator;
using elevd::sched::test::series;

namespace {

Bench::Options with_pieces_of_4_kib(std::uint32_t depth, unsigned workers = 1) {
  Bench::Options options;
  options.depth = depth;
  options.workers = workers;
  options.limits.max_sectors = Sectors{8};
  return options;
}

}  // namespace

TEST_SUITE("waiting") {
  TEST_CASE("the plug is flushed before a bio is parked: the missing tags may be in it") {
    Bench bench({.depth = 4});
    bench.submit(series('R', 0, 8, 100, 5));
    CHECK(bench.worker().plug.empty());
    CHECK(bench.held.size() == 4);
    CHECK(bench.queue().hardware_tags().parked() == 1);
  }

  TEST_CASE("tags in another worker's plug are waited for") {
    Bench bench({.workers = 2, .depth = 4});
    bench.submit(series('R', 0, 8, 100, 4), 0);
    bench.burst("R5000", 1);
    CHECK(bench.issued() == "");
    bench.flush_plug(0);
    bench.complete();
    bench.turn(1);
    CHECK(bench.issued() == "R0+8 R100+8 R200+8 R300+8 R5000+8");
  }

  TEST_CASE("a device that completes at once never makes anybody wait") {
    Bench bench({.depth = 4, .complete_inline = true});
    bench.burst(series('R', 0, 8, 100, 50));
    CHECK(bench.queue().hardware_tags().parked() == 0);
    bench.settle();
    CHECK(bench.answered_log.size() == 50);
  }

  TEST_CASE("a woken bio goes on piece by piece until it is done or finds no tag") {
    Bench bench(with_pieces_of_4_kib(16));  // wake batch 2
    bench.burst("R0+240");                  // 30 pieces
    CHECK(bench.held.size() == 16);
    CHECK(bench.queue().hardware_tags().parked() == 1);
    bench.clear();
    bench.complete();
    bench.settle();
    CHECK(bench.issued() == "");  // half a batch
    for (unsigned n = 0; n < 3; ++n) bench.complete();
    bench.settle();
    CHECK(bench.issued() == "R128+8 R136+8 R144+8 R152+8");
    CHECK(bench.queue().hardware_tags().parked() == 1);
    for (unsigned n = 0; n < 16; ++n) bench.complete();
    bench.settle();
    CHECK(bench.queue().hardware_tags().waiting() == 0);
    bench.drain();
    CHECK(bench.answered() == "R0+240");
  }

  TEST_CASE("two cut bios wait in turn") {
    Bench bench(with_pieces_of_4_kib(4, 2));  // wake batch 1
    bench.burst("R0+48", 0);
    bench.burst("R1000+48", 1);
    bench.clear();
    for (unsigned n = 0; n < 8; ++n) {
      bench.complete();
      bench.settle();
    }
    CHECK(bench.issued() == "R32+8 R1000+8 R40+8 R1008+8 R1016+8 R1024+8 R1032+8 R1040+8");
  }

  TEST_CASE("who frees tags does not serve its own new bios first") {
    Bench bench({.workers = 2, .depth = 4});
    bench.burst(series('R', 0, 8, 100, 4), 0);
    bench.burst("R5000", 1);
    bench.complete(0, 0);  // by worker 0: the bio of worker 1 is woken by mail
    CHECK_FALSE(bench.worker(1).mailbox.empty());
    bench.burst("R6000", 0);
    CHECK(bench.queue().hardware_tags().bitmap().busy() == 3);
    CHECK(bench.queue().hardware_tags().parked() == 1);
    bench.settle();
    CHECK(bench.issued() == "R0+8 R100+8 R200+8 R300+8 R5000+8");
    bench.complete();
    bench.settle();
    CHECK(bench.issued() == "R0+8 R100+8 R200+8 R300+8 R5000+8 R6000+8");
  }

  TEST_CASE("a sleeping worker that got mail is to be woken, once") {
    Bench bench({.workers = 2, .depth = 4});
    bench.burst(series('R', 0, 8, 100, 4), 0);
    bench.burst("R5000 R6000", 1);
    REQUIRE(bench.worker(1).mailbox.prepare_sleep());
    bench.complete();
    CHECK(bench.worker(0).to_wake == 2);
    bench.worker(0).to_wake = 0;
    bench.complete();
    CHECK(bench.worker(0).to_wake == 0);
  }

  TEST_CASE("many waiters are all served, in order, whatever the depth") {
    for (const std::uint32_t depth : {1U, 2U, 4U, 7U, 16U, 33U, 64U}) {
      CAPTURE(depth);
      Bench bench({.workers = 2, .depth = depth});
      std::string expected;
      for (unsigned n = 0; n < 200; ++n) {
        bench.burst("W" + std::to_string(n * 100), n % 2);
        expected += (n == 0 ? "W" : " W") + std::to_string(n * 100) + "+8";
      }
      unsigned rounds = 0;
      while (bench.answered_log.size() < 200 && rounds++ < 1000) {
        bench.complete();
        // The worker whose bio was woken first goes first.
        bench.deliver(0);
        bench.deliver(1);
        while (!bench.worker(0).woken.empty() || !bench.worker(1).woken.empty()) {
          auto begins = [&bench](unsigned w) {
            return bench.worker(w).woken.empty() ? ~std::uint64_t{0}
                                                 : bench.worker(w).woken.front().start.value;
          };
          const unsigned w = begins(0) < begins(1) ? 0 : 1;
          Bio& bio = bench.worker(w).woken.front();
          bench.worker(w).woken.pop_front();
          bench.queue().resume(bench.worker(w), bio);
          bench.flush_plug(w);
        }
        bench.answer(0);
      }
      CHECK(bench.issued() == expected);
    }
  }

  TEST_CASE("no-wait bios fail with EAGAIN instead of waiting") {
    Bench bench({.depth = 4});
    bench.burst(series('R', 0, 8, 100, 4));
    auto& full = bench.burst("R5000/nowait");
    bench.settle();
    CHECK(full.answer == EAGAIN);
    bench.burst("R6000");  // waits
    auto& behind = bench.burst("R7000/nowait");
    bench.settle();
    CHECK(behind.answer == EAGAIN);
    bench.drain();
    auto& free = bench.burst("R8000/nowait");
    bench.drain();
    CHECK(free.answer == 0);
  }

  TEST_CASE("a no-wait bio does not overtake a woken one") {
    Bench bench({.depth = 4});
    bench.burst(series('R', 0, 8, 100, 4));
    bench.burst("R6000");
    bench.complete();  // a tag is free, and R6000 is on its way to it
    auto& bio = bench.burst("R7000/nowait");
    bench.answer(0);
    CHECK(bio.answer == EAGAIN);
  }

  TEST_CASE("a no-wait bio still merges when no tag is free") {
    Bench bench({.depth = 4});
    bench.submit(series('R', 0, 8, 100, 4));
    auto& bio = bench.submit("R308/nowait");
    bench.drain();
    CHECK(bio.answer == 0);
    CHECK(bench.count('M') == 1);
  }

  TEST_CASE("limited bios are parked alone: less limited ones go by, more limited ones do not") {
    FifoElevator::Options fifo;
    fifo.async_shallow = 4;
    Bench bench({.depth = 8, .elevator = [&] { return std::make_unique<FifoElevator>(fifo); }});
    TagMap& tags = bench.queue().allocation_tags();  // 16 tags
    bench.burst(series('W', 0, 8, 100, 5));
    CHECK(tags.parked() == 1);
    bench.burst("W9000");
    CHECK(tags.parked() == 2);
    bench.burst("R1000 W2000/sync");
    CHECK(tags.parked() == 2);
    CHECK(tags.bitmap().busy() == 6);
    bench.complete_request("W0+8");
    bench.settle();
    CHECK(tags.parked() == 1);
    CHECK(bench.issued_log.back() == "W400+8");
  }

  TEST_CASE("a wake-up that a limited bio cannot use goes to a reader") {
    FifoElevator::Options fifo;
    fifo.async_shallow = 4;
    Bench bench({.depth = 8, .elevator = [&] { return std::make_unique<FifoElevator>(fifo); }});
    bench.burst(series('W', 0, 8, 100, 5));      // 4 tags, one parked
    bench.burst(series('R', 5000, 8, 100, 13));  // 12 tags, one parked
    TagMap& tags = bench.queue().allocation_tags();
    REQUIRE(tags.parked() == 2);
    bench.complete_request("R5000+8");
    bench.settle();
    CHECK(tags.parked() == 1);
    CHECK(tags.bitmap().busy() == 16);
    bench.complete_request("W0+8");
    bench.settle();
    CHECK(tags.parked() == 0);
  }
}

TEST_SUITE("gate") {
  TEST_CASE("bios wait in order at a closed gate and enter when it opens") {
    Bench bench;
    bench.queue().close_gate(bench.worker());
    bench.burst("R1000 W2000 R1008");
    CHECK(bench.issued() == "");
    CHECK(bench.queue().inside() == 0);
    bench.queue().open_gate(bench.worker());
    CHECK(bench.issued() == "R1000+8 W2000+8 R1008+8");
    CHECK(bench.queue().inside() == 3);
    bench.burst("R5000");
    CHECK(bench.issued() == "R1000+8 W2000+8 R1008+8 R5000+8");
  }

  TEST_CASE("a gate belongs to one worker") {
    Bench bench({.workers = 2});
    bench.queue().close_gate(bench.worker(0));
    bench.burst("R1000", 0);
    bench.burst("R2000", 1);
    CHECK(bench.issued() == "R2000+8");
    bench.queue().open_gate(bench.worker(0));
    CHECK(bench.issued() == "R2000+8 R1000+8");
  }

  TEST_CASE("a bio that entered goes on behind the closed gate with all its pieces") {
    Bench bench(with_pieces_of_4_kib(4));
    bench.burst("R0+80");
    bench.burst("R1000");
    bench.queue().close_gate(bench.worker());
    CHECK(bench.queue().inside() == 2);
    bench.burst("R2000");
    unsigned told = 0;
    while (!bench.held.empty()) {
      bench.complete();
      bench.deliver(0);
      bench.worker().resume_woken();
      bench.worker().flush_plug(false);
      bench.worker().run_queues();
      while (!bench.worker().finished.empty()) {
        bench.worker().finished.pop_front();
        if (bench.queue().leave(bench.worker())) ++told;
      }
    }
    CHECK(told == 2);  // each that leaves tells the keeper
    CHECK(bench.queue().inside() == 0);
    CHECK(bench.queue().idle());
    CHECK(bench.issued_log.back() == "R72+8");
    bench.queue().open_gate(bench.worker());
    CHECK(bench.issued_log.back() == "R2000+8");
  }

  TEST_CASE("leaving an open gate tells nobody") {
    Bench bench;
    bench.burst("R0");
    bench.complete();
    bench.worker().finished.pop_front();
    CHECK_FALSE(bench.queue().leave(bench.worker()));
  }

  TEST_CASE("a no-wait bio fails at a closed gate") {
    Bench bench;
    bench.queue().close_gate(bench.worker());
    auto& bio = bench.burst("R1000/nowait");
    bench.answer(0);
    CHECK(bio.answer == EAGAIN);
    CHECK(bench.queue().inside() == 0);
    bench.queue().open_gate(bench.worker());
  }

  TEST_CASE("an empty flush or a bad bio counts as inside until it is answered") {
    Limits limits;
    limits.write_back = false;
    Bench bench({.limits = limits});
    bench.burst("F");
    CHECK(bench.queue().inside() == 1);
    bench.answer(0);
    CHECK(bench.queue().inside() == 0);
  }

  TEST_CASE("what was changed while frozen holds for the bios that waited") {
    Bench bench;
    bench.queue().close_gate(bench.worker());
    bench.burst("R0+512");
    Limits limits = bench.queue().limits();
    limits.max_sectors = Sectors{256};
    bench.queue().set_limits(limits);
    bench.queue().set_nr_requests(4);
    bench.queue().open_gate(bench.worker());
    CHECK(bench.issued() == "R0+256 R256+256");
  }
}
