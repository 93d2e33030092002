// SPDX-License-Identifier: Apache-2.0
// What the worked examples of kyber leave: domains, tokens, depth, the timer in a queue.
#include "sched/kyber.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <string>

#include "kyber_bench.hpp"

namespace elevd::sched::test::kyber_queue {
namespace {

using namespace literals;

constexpr KyberDomain kRead = KyberDomain::read;
constexpr KyberDomain kWrite = KyberDomain::write;
constexpr KyberDomain kDiscard = KyberDomain::discard;
constexpr KyberDomain kOther = KyberDomain::other;

std::string writes(unsigned n) { return series('W', 100000, 8, 100, n); }
std::string reads(unsigned n) { return series('R', 200000, 8, 100, n); }

/// Requests of `op` at the device.
std::size_t held(const Bench& bench, Op op) {
  return static_cast<std::size_t>(std::count_if(bench.held.begin(), bench.held.end(),
                                                [op](const Request* rq) { return rq->op == op; }));
}

}  // namespace

TEST_SUITE("kyber") {
  TEST_CASE("constants of docs/spec/kyber.md section 2") {
    const KyberBench kyber;
    struct Row {
      KyberDomain domain;
      std::uint32_t tokens, wake_batch;
    };
    for (const Row& row :
         {Row{kRead, 256, 8}, {kWrite, 128, 8}, {kDiscard, 64, 8}, {kOther, 16, 2}}) {
      CHECK(kyber.elevator->pool(row.domain).depth() == row.tokens);
      CHECK(kyber.elevator->pool(row.domain).wake_batch() == row.wake_batch);
    }
    CHECK(kyber.elevator->current() == kRead);
    CHECK(kyber.elevator->batching() == 0);
  }

  TEST_CASE("operations and their domains") {
    CHECK(Kyber::domain_of(Op::read) == kRead);
    CHECK(Kyber::domain_of(Op::write) == kWrite);
    CHECK(Kyber::domain_of(Op::discard) == kDiscard);
    CHECK(Kyber::domain_of(Op::write_zeroes) == kOther);
  }

  TEST_CASE("batches: 16 reads, 8 writes, a discard, a write zeroes, and so on") {
    KyberBench kyber({.nr_requests = 256});
    Bench& bench = kyber.bench;
    bench.queue().quiesce();
    bench.each(series('R', 0, 8, 100, 40));
    bench.each(series('W', 0, 8, 100, 20));
    bench.each(series('D', 0, 8, 100, 3));
    bench.each(series('Z', 0, 8, 100, 3));
    bench.queue().unquiesce(bench.worker());
    bench.settle();
    std::string kinds;
    for (const Request* rq : bench.held) {
      kinds += rq->op == Op::read      ? 'R'
               : rq->op == Op::write   ? 'W'
               : rq->op == Op::discard ? 'D'
                                       : 'Z';
    }
    const std::string w(8, 'W');
    CHECK(kinds == std::string(16, 'R') + w + "DZ" + std::string(16, 'R') + w + "DZ" +
                       std::string(8, 'R') + "WWWW" + "DZ");
  }

  TEST_CASE("at most so many tokens; the rest waits in the lists, mergeable, for a wake batch") {
    KyberBench kyber;
    Bench& bench = kyber.bench;
    bench.queue().set_nr_requests(1024);
    bench.each(writes(140));
    CHECK(bench.held.size() == 128);
    CHECK(kyber.elevator->pool(kWrite).out() == 128);
    CHECK(kyber.elevator->pool(kWrite).waiting());
    CHECK(kyber.elevator->list(0, kWrite).size() == 12);
    CHECK(kyber.elevator->flushed(kWrite).empty());
    bench.each("W113908");  // behind the last of them
    CHECK(kyber.elevator->list(0, kWrite).size() == 12);
    CHECK(kyber.elevator->list(0, kWrite).back().length == Sectors{16});
    bench.each(reads(3));
    CHECK(held(bench, Op::read) == 3);               // another domain is not held back
    bench.complete_at(bench.held.size() - 1, 0, 0);  // sets the timer, which is a run
    bench.settle();
    for (unsigned n = 0; n < 7; ++n) bench.complete_at(0, 0, 0);
    bench.settle();
    CHECK(held(bench, Op::write) == 121);
    bench.complete_at(0, 0, 0);
    bench.settle();
    CHECK(held(bench, Op::write) == 128);
    CHECK(kyber.elevator->flushed(kWrite).size() == 4);
    CHECK(kyber.elevator->list(0, kWrite).empty());
    CHECK(kyber.elevator->pool(kWrite).waiting());
    kyber.bench.release_all();
    CHECK(kyber.elevator->pool(kWrite).out() == 0);
  }

  TEST_CASE("one request is pulled beyond the depth of the device, with its token") {
    KyberBench kyber({.depth = 4});
    kyber.play("R100 R200 R300 R400 R500 R600");
    CHECK(kyber.elevator->pool(kRead).out() == 5);
    CHECK(kyber.elevator->batching() == 5);
    CHECK(kyber.elevator->flushed(kRead).size() == 1);
    CHECK(kyber.bench.queue().view_residual().size() == 1);
  }

  TEST_CASE("a refused request keeps its token and takes no second one") {
    KyberBench kyber;
    kyber.bench.driver().refuse = 1;
    kyber.play("R100 R200");
    CHECK(kyber.bench.held.empty());
    CHECK(kyber.elevator->pool(kRead).out() == 2);
    kyber.bench.lift_refusals();
    kyber.bench.settle();
    CHECK(kyber.bench.held.size() == 2);
    CHECK(kyber.elevator->pool(kRead).out() == 2);
  }

  TEST_CASE("a requeued request takes a new token") {
    Limits limits;
    std::atomic<unsigned> nomerges{0};
    Kyber kyber;
    kyber.attach({&limits, &nomerges});
    Request rq;
    RequestList list, merged;
    list.push_back(rq);
    kyber.insert(list, merged, {});
    REQUIRE(kyber.dispatch({}) == &rq);
    CHECK(kyber.pool(kRead).out() == 1);
    list.push_back(rq);
    kyber.insert(list, merged, {});
    CHECK(kyber.pool(kRead).out() == 0);
    REQUIRE(kyber.dispatch({}) == &rq);
    CHECK(kyber.pool(kRead).out() == 1);
    static_cast<void>(kyber.completed(rq, {}));
    CHECK(kyber.pool(kRead).out() == 0);
    static_cast<void>(kyber.completed(rq, {}));  // it has none any more
  }

  TEST_CASE("data with FUA goes through, its flushes pass by") {
    KyberBench kyber;
    kyber.play("W100/fua");
    CHECK(kyber.dispatched == "W100 ");
    kyber.bench.release_one();
    CHECK(kyber.dispatched == "W100 F ");
    CHECK(kyber.elevator->pool(kWrite).out() == 0);
  }

  TEST_CASE("at head: before everything of its list") {
    KyberBench kyber({.workers = 2});
    kyber.play("quiesce W100 ; W200/head ; 1:W300 ; W400/head unquiesce");
    CHECK(kyber.dispatched == "W400 W200 W100 W300 ");
  }

  TEST_CASE("merging: nomerges 2 turns it off, 1 does not; classes and other operations apart") {
    struct Row {
      unsigned nomerges;
      std::string steps, dispatched;
    };
    for (const Row& row : {
             Row{0, "W1008 ; W1000", "W1000+16"},
             {1, "W1008 ; W1000", "W1000+16"},
             {2, "W1008 ; W1000", "W1008 W1000"},
             {0, "W1000 ; R1008", "R1008 W1000"},
             {0, "W1000/RT ; W1008", "W1000 W1008"},
             {0, "D1000 ; D1008", "D1000+16"},
             {0, "Z1000 ; Z1008", "Z1000 Z1008"},
             {0, "W1000/nomerge ; W1016 ; W1008", "W1000 W1008+16"},
             {0, "W1016 ; W1000/nomerge ; W1008", "W1008+16 W1000"},
         }) {
      CAPTURE(row.steps);
      CAPTURE(row.nomerges);
      for (const bool contended : {false, true}) {
        CAPTURE(contended);
        KyberBench kyber({.workers = 2});
        kyber.bench.queue().set_nomerges(row.nomerges);
        kyber.bench.queue().contend_bio_merges(contended);
        kyber.play("quiesce " + row.steps + " unquiesce");
        CHECK(kyber.dispatched == row.dispatched + " ");
      }
    }
  }

  TEST_CASE("a fitting one that is too large ends the search, and takes nobody any more") {
    for (const bool contended : {false, true}) {
      CAPTURE(contended);
      KyberBench kyber;
      Limits limits = kyber.bench.queue().limits();
      limits.max_sectors = {16};
      kyber.bench.queue().set_limits(limits);
      kyber.bench.queue().contend_bio_merges(contended);
      // W1000+16 is too large to go before W1016, which then takes W1024 no more.
      kyber.play("quiesce W1016 ; W1000+16 ; W1024 ; unquiesce");
      CHECK(kyber.dispatched == "W1016 W1000+16 W1024 ");
      kyber.bench.release_all();
      kyber.dispatched.clear();
      // W2024 fits both: behind W2008+16, which is full, before W2032.
      kyber.play("quiesce W2032 ; W2008+16 ; W2024 ; W2000 ; unquiesce");
      CHECK(kyber.dispatched == "W2032 W2008+16 W2024 W2000 ");
    }
  }

  TEST_CASE("with nothing queued nobody looks") {
    KyberBench kyber;
    kyber.play("R100 | R200 | R300 |");
    CHECK(kyber.bench.stats().merge_attempts[static_cast<unsigned>(MergePoint::bio_merge)] == 0);
  }

  TEST_CASE("async_depth: three quarters, scaled with nr_requests, in the wake batch (section 6)") {
    struct Row {
      std::uint32_t nr_requests, async_depth, wake_batch;
    };
    for (const Row& row : {Row{256, 192, 8},
                           {128, 96, 8},
                           {64, 48, 6},
                           {10, 7, 1},
                           {8, 6, 1},
                           {5, 3, 1},
                           {4, 3, 1},
                           {20, 15, 1},
                           {32, 24, 3},
                           {85, 63, 7},
                           {86, 64, 8},
                           {2048, 1536, 8}}) {
      CAPTURE(row.nr_requests);
      KyberBench kyber;
      RequestQueue& queue = kyber.bench.queue();
      queue.set_nr_requests(row.nr_requests);
      CHECK(queue.async_depth() == row.async_depth);
      CHECK(Kyber{}.default_async_depth(row.nr_requests) == row.async_depth);
      CHECK(queue.allocation_tags().min_shallow_depth() == row.async_depth);
      CHECK(queue.allocation_tags().wake_batch() == row.wake_batch);
    }
  }

  TEST_CASE("admission: everything but reads is limited (section 6)") {
    struct Row {
      std::uint32_t nr_requests;
      std::string first;
      std::uint32_t held_first, held;
    };
    for (const Row& row : {
             Row{8, writes(10), 6, 8},
             {16, writes(16), 12, 16},
             {10, writes(10), 7, 10},
             {8, series('W', 0, 8, 100, 3) + " " + series('D', 0, 8, 100, 9), 6, 8},
             {8, reads(9), 8, 8},
         }) {
      CAPTURE(row.nr_requests);
      CAPTURE(row.first);
      KyberBench kyber;
      RequestQueue& queue = kyber.bench.queue();
      queue.set_nr_requests(row.nr_requests,
                            std::make_unique<TagMap>(row.nr_requests, row.nr_requests, 1));
      kyber.bench.each(row.first);
      CHECK(queue.allocation_tags().bitmap().busy() == row.held_first);
      kyber.bench.each(series('R', 500000, 8, 100, 12));
      CHECK(queue.allocation_tags().bitmap().busy() == row.held);
    }
  }

  TEST_CASE("a switch starts with a fresh scheduler") {
    KyberBench kyber;
    kyber.play("R100 W200 |");
    CHECK(kyber.elevator->current() == kWrite);
    RequestQueue& queue = kyber.bench.queue();
    auto next = queue.prepare(std::make_unique<Kyber>());
    auto* fresh = static_cast<Kyber*>(next.elevator.get());
    const RequestQueue::Attachment old = queue.attach(std::move(next));
    CHECK(old.elevator.get() == kyber.elevator);
    CHECK(fresh->current() == kRead);
    CHECK(fresh->batching() == 0);
    CHECK_FALSE(fresh->timer_at().has_value());
    CHECK(queue.async_depth() == 192);
    kyber.elevator = fresh;
  }

  TEST_CASE("the timer of a queue: set by a completion, kept by a worker, fired without work") {
    KyberBench kyber({.depth = 4});
    Bench& bench = kyber.bench;
    kyber.elevator->latency().set_target(kRead, 0);
    bench.worker().wake_at.reset();
    kyber.play("R100 |");
    REQUIRE(bench.queue().wake_at().has_value());
    const Instant due = *bench.queue().wake_at();
    CHECK(due == bench.now() + 100_ms);
    CHECK(bench.worker().wake_at == due);
    bench.advance(due - bench.now());
    bench.queue().run(bench.worker());
    CHECK_FALSE(bench.queue().wake_at().has_value());
  }

  TEST_CASE("the timer fires while the device is full and something is residual") {
    KyberBench kyber({.depth = 4});
    Bench& bench = kyber.bench;
    kyber.play("R100 R200 R300 R400 R500 R600 R700 !");
    REQUIRE(!bench.queue().view_residual().empty());
    REQUIRE(bench.queue().wake_at().has_value());
    CHECK(bench.worker().wake_at == bench.queue().wake_at());
    bench.advance(*bench.queue().wake_at() - bench.now());
    bench.queue().run(bench.worker());
    CHECK_FALSE(bench.queue().wake_at().has_value());
    kyber.bench.release_all();
  }

  TEST_CASE("a timer set by a completion of another worker bounds the dispatcher's sleep") {
    KyberBench kyber({.workers = 2});
    Bench& bench = kyber.bench;
    kyber.play("R100");
    bench.complete_at(0, 0, 1);
    bench.settle();
    CHECK(bench.worker(1).wake_at == bench.queue().wake_at());
  }

  TEST_CASE("a new depth lets requests go in the same run") {
    KyberBench kyber;
    Bench& bench = kyber.bench;
    bench.queue().set_nr_requests(1024);
    kyber.elevator->latency().set_target(kWrite, 0);
    // Reads bad at the device, and of writes everything good: down to 32.
    const auto round = [&](std::uint64_t read_target, std::uint64_t write_target) {
      kyber.elevator->latency().set_target(kRead, read_target);
      kyber.elevator->latency().set_target(kWrite, write_target);
      for (unsigned n = 0; n < 10; ++n) {
        bench.each(series('R', 0, 8, 100, 60));
        bench.each(series('W', 0, 8, 100, 60));
        bench.advance(1_ms);
        kyber.bench.release_all();
      }
      bench.advance(100_ms);
    };
    constexpr std::uint64_t kFar = 1'000'000'000'000;
    round(0, kFar);
    bench.queue().run(bench.worker());
    CHECK(kyber.elevator->pool(kWrite).depth() == 32);
    CHECK(kyber.elevator->pool(kRead).depth() == 256);
    round(kFar, 0);
    bench.each(series('W', 0, 8, 100, 60));  // the first of them runs the timer
    CHECK(kyber.elevator->pool(kWrite).depth() == 64);
    CHECK(held(bench, Op::write) == 60);
    kyber.bench.release_all();
  }
}

}  // namespace elevd::sched::test::kyber_queue
