// SPDX-License-Identifier: Apache-2.0
// What a worker does while another one holds the elevator lock: docs/architecture.md, "Concurrency
// rules", rules 3 and 11; docs/spec/bfq.md section 17.
#include <doctest/doctest.h>

#include <string>

#include "fifo_bench.hpp"

using namespace elevd::sched;
using elevd::sched::test::FifoBench;
using elevd::sched::test::FifoElevator;

namespace {

constexpr auto kBioMerge = static_cast<unsigned>(MergePoint::bio_merge);

/// Calls `what` while the elevator lock is held.
template <class What>
void contended(FifoBench& fifo, What&& what) {
  const LockGuard guard(QueueTest::elevator_lock(fifo.bench.queue()));
  what();
}

/// A device without room: nobody takes the lock to dispatch.
struct Closed {
  explicit Closed(FifoBench& fifo) : fifo_(fifo) { set(0); }
  void open() { set(1U << 20U); }

 private:
  void set(unsigned slots) {
    for (unsigned w = 0; w < fifo_.bench.queue().workers(); ++w)
      fifo_.bench.driver(w).slots = slots;
  }
  FifoBench& fifo_;
};

FifoElevator::Options merging() {
  FifoElevator::Options options;
  options.merges = true;
  options.hold = true;
  return options;
}

}  // namespace

TEST_SUITE("contention") {
  TEST_CASE("who submits does not wait; what waits goes before what comes later") {
    FifoBench fifo;
    Closed device(fifo);
    contended(fifo, [&] { fifo.bench.burst("R1000 R2000"); });
    CHECK(fifo.bench.queue().view_software(0).size() == 2);
    CHECK_FALSE(fifo.elevator->has_work());
    CHECK_FALSE(fifo.bench.queue().idle());
    fifo.bench.burst("R3000");
    CHECK(fifo.bench.queue().view_software(0).empty());
    CHECK(fifo.bench.queue().software_pending() == 0);
    device.open();
    fifo.bench.queue().run(fifo.bench.worker());
    CHECK(fifo.bench.events("I") == "I R1000+8, I R2000+8, I R3000+8");
    CHECK(fifo.bench.issued() == "R1000+8 R2000+8 R3000+8");
  }

  TEST_CASE("whoever dispatches takes over what waits, of every worker") {
    FifoBench fifo({}, 8, 3);
    Closed device(fifo);
    contended(fifo, [&] {
      fifo.bench.burst("R1000", 0);
      fifo.bench.burst("R2000", 2);
    });
    CHECK(fifo.bench.queue().software_pending() == 0b101);
    device.open();
    fifo.bench.queue().run(fifo.bench.worker(1));
    CHECK(fifo.bench.issued() == "R1000+8 R2000+8");
  }

  TEST_CASE("at head: before what is queued, though it had to wait") {
    FifoBench fifo;
    Closed device(fifo);
    fifo.bench.burst("R1000");
    contended(fifo, [&] { fifo.bench.burst("R2000/head"); });
    device.open();
    fifo.bench.queue().run(fifo.bench.worker());
    CHECK(fifo.bench.issued() == "R2000+8 R1000+8");
  }

  TEST_CASE("the lookup is left out") {
    FifoBench fifo(merging());
    fifo.bench.burst("R1000");
    contended(fifo, [&] { fifo.bench.submit("R1008"); });
    CHECK(fifo.bench.count('M') == 0);
    CHECK(fifo.bench.stats().merge_skips == 1);
    CHECK(fifo.bench.stats().merge_attempts[kBioMerge] == 2);
  }

  TEST_CASE("for a while after it was contended the lock is not tried") {
    FifoBench fifo(merging(), 64);
    fifo.bench.burst("R0");
    contended(fifo, [&] { fifo.bench.submit("R1000"); });
    for (unsigned n = 0; n < kContendedFor; ++n) {
      fifo.bench.submit("R" + std::to_string(2000 + 100 * n));
    }
    CHECK(fifo.bench.stats().merge_skips == 1 + kContendedFor);
    fifo.bench.submit("R8");
    CHECK(fifo.bench.stats().merge_skips == 1 + kContendedFor);
    CHECK(fifo.bench.events("M") == "M R8+8");
  }

  TEST_CASE("another worker goes on trying") {
    FifoBench fifo(merging(), 8, 2);
    fifo.bench.burst("R1000");
    contended(fifo, [&] { fifo.bench.submit("R5000"); });
    fifo.bench.submit("R1008", 1);
    CHECK(fifo.bench.events("M") == "M R1008+8");
  }

  TEST_CASE("a completion waits for a later turn") {
    FifoBench fifo;
    auto& bio = fifo.bench.burst("R1000");
    Closed device(fifo);
    contended(fifo, [&] {
      fifo.bench.complete();
      for (unsigned turn = 1; turn < kMostTurnsPutOff; ++turn) {
        fifo.bench.turn(0);
        CHECK(fifo.elevator->completed_calls == 0);
        CHECK(fifo.bench.worker().has_work());  // it does not sleep
      }
    });
    fifo.bench.turn(0);
    CHECK(fifo.elevator->completed_calls == 1);
    CHECK(bio.answers == 1);
  }
}
