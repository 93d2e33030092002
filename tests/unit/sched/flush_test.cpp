// SPDX-License-Identifier: Apache-2.0
// Flush and FUA: docs/spec/plug-and-merge.md section 8.
#include "sched/flush_machine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench.hpp"

using namespace elevd::sched;
using namespace elevd::sched::literals;
using elevd::sched::test::Bench;

namespace {

enum class Cache { write_through, write_back, write_back_fua };

Bench::Options with_cache(Cache cache) {
  Bench::Options options;
  options.limits.write_back = cache != Cache::write_through;
  options.limits.fua = cache == Cache::write_back_fua;
  return options;
}

/// Completes whatever the device holds, one after the other, each with the next of `errors`.
void complete_in_turn(Bench& bench, std::vector<int> errors = {}) {
  std::size_t n = 0;
  bench.settle();
  while (!bench.held.empty()) {
    bench.complete(n < errors.size() ? errors[n] : 0);
    ++n;
    bench.settle();
  }
}

}  // namespace

TEST_SUITE("flush") {
  TEST_CASE("steps of a request") {
    struct Row {
      BioFlags flags;
      bool data, fua;
      unsigned steps;
    };
    const Row rows[] = {
        {kBioPreflush, false, false, kStepPreflush},
        {kBioPreflush, false, true, kStepPreflush},
        {0, true, false, kStepData},
        {kBioFua, true, false, kStepData | kStepPostflush},
        {kBioFua, true, true, kStepData},
        {kBioPreflush, true, false, kStepPreflush | kStepData},
        {kBioPreflush | kBioFua, true, false, kStepPreflush | kStepData | kStepPostflush},
        {kBioPreflush | kBioFua, true, true, kStepPreflush | kStepData},
    };
    for (const Row& row : rows) {
      CAPTURE(row.flags);
      CAPTURE(row.fua);
      CHECK(FlushMachine::steps_for(row.flags, row.data, row.fua) == row.steps);
    }
  }

  TEST_CASE("what reaches the device in the three cache modes") {
    struct Row {
      const char* bio;
      const char *through, *back, *fua;
    };
    const Row rows[] = {
        {"F", "", "F", "F"},
        {"W1000", "W1000+8", "W1000+8", "W1000+8"},
        {"W1000/fua", "W1000+8", "W1000+8 F", "W1000+8"},
        {"W1000/preflush", "W1000+8", "F W1000+8", "F W1000+8"},
        {"W1000/preflush/fua", "W1000+8", "F W1000+8 F", "F W1000+8"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.bio);
      const char* expected[] = {row.through, row.back, row.fua};
      for (unsigned mode = 0; mode < 3; ++mode) {
        CAPTURE(mode);
        Bench bench(with_cache(static_cast<Cache>(mode)));
        auto& bio = bench.burst(row.bio);
        complete_in_turn(bench);
        CHECK(bench.issued() == expected[mode]);
        CHECK(bio.answers == 1);
        CHECK(bio.answer == 0);
        CHECK(bench.queue().hardware_tags().bitmap().busy() == 0);
        CHECK(bench.queue().idle());
      }
    }
  }

  TEST_CASE("the device sees the flags it has to act on and no other") {
    struct Row {
      const char* bio;
      Cache cache;
      BioFlags flags;
    };
    const Row rows[] = {
        {"W0/fua", Cache::write_through, 0},
        {"W0/preflush/fua", Cache::write_through, 0},
        {"W0/fua", Cache::write_back, kBioSync},
        {"W0/preflush", Cache::write_back, kBioSync},
        {"W0/preflush/fua", Cache::write_back, kBioSync},
        {"W0/fua", Cache::write_back_fua, kBioFua},
        {"W0/preflush", Cache::write_back_fua, kBioSync},
        {"W0/preflush/fua", Cache::write_back_fua, kBioFua | kBioSync},
    };
    for (const Row& row : rows) {
      CAPTURE(row.bio);
      Bench bench(with_cache(row.cache));
      BioFlags seen = 0xffff;
      bench.on_issue = [&seen](const Request& rq) {
        if (rq.op == Op::write) seen = rq.bio_flags;
      };
      bench.burst(row.bio);
      complete_in_turn(bench);
      CHECK(seen == row.flags);
    }
  }

  TEST_CASE("an error at any step ends the sequence with that error") {
    struct Row {
      const char* bio;
      std::vector<int> errors;
      const char* issued;
      int answer;
    };
    const Row rows[] = {
        {"F", {5}, "F", 5},
        {"W0/fua", {28}, "W0+8", 28},
        {"W0/fua", {0, 5}, "W0+8 F", 5},
        {"W0/preflush", {5}, "F", 5},
        {"W0/preflush", {0, 28}, "F W0+8", 28},
        {"W0/preflush/fua", {5}, "F", 5},
        {"W0/preflush/fua", {0, 28}, "F W0+8", 28},
        {"W0/preflush/fua", {0, 0, 5}, "F W0+8 F", 5},
    };
    for (const Row& row : rows) {
      CAPTURE(row.bio);
      Bench bench;
      auto& bio = bench.burst(row.bio);
      complete_in_turn(bench, row.errors);
      CHECK(bench.issued() == row.issued);
      CHECK(bio.answer == row.answer);
      bench.clear();
      auto& next = bench.burst("F");  // the machine works on
      complete_in_turn(bench);
      CHECK(bench.issued() == "F");
      CHECK(next.answer == 0);
    }
  }

  TEST_CASE("one that begins with a flush is held back, one that begins with data is not") {
    Bench bench;
    bench.burst("W1000/preflush W2000/fua W3000");
    CHECK(bench.issued() == "F W2000+8 W3000+8");
    bench.complete_request("F");
    bench.settle();
    CHECK(bench.issued() == "F W2000+8 W3000+8 W1000+8");
  }

  TEST_CASE("many fsyncs share one FLUSH: who comes while it runs shares the next") {
    Bench bench;
    for (unsigned n = 0; n < 10; ++n) bench.burst("F");
    CHECK(bench.issued() == "F");
    bench.complete();
    bench.settle();
    CHECK(bench.answered() == "F");
    CHECK(bench.issued() == "F F");
    bench.complete();
    bench.settle();
    CHECK(bench.answered() == "F F F F F F F F F F");
    CHECK(bench.issued() == "F F");
    CHECK(bench.held.empty());
  }

  TEST_CASE("an error of a shared FLUSH reaches all who shared it, and no others") {
    Bench bench;
    bench.burst("F");
    bench.burst("F");
    bench.burst("F");
    bench.complete(0);
    bench.settle();
    bench.complete(5);
    bench.settle();
    CHECK(bench.answered() == "F F=5 F=5");
  }

  TEST_CASE("no FLUSH while a DATA step is in flight") {
    Bench bench;
    bench.burst("W1000/fua");
    bench.burst("F");
    CHECK(bench.issued() == "W1000+8");
    bench.complete_request("W1000+8");
    bench.settle();
    CHECK(bench.issued() == "W1000+8 F");  // serves both
    bench.complete();
    bench.settle();
    CHECK(bench.answered() == "F W1000/fua");
    CHECK(bench.held.empty());
  }

  TEST_CASE("unless the oldest waiter has waited for 5 s") {
    Bench bench;
    bench.burst("W1000/fua");
    bench.burst("F");
    bench.advance(4999_ms);
    bench.burst("F");
    CHECK(bench.issued() == "W1000+8");
    bench.advance(1_ms);
    bench.burst("F");
    CHECK(bench.issued() == "W1000+8 F");
    // The data came too late for that FLUSH and needs another.
    bench.complete_request("W1000+8");
    bench.settle();
    bench.complete_request("F");
    bench.settle();
    CHECK(bench.issued() == "W1000+8 F F");
    CHECK(bench.answered() == "F F F");
    bench.complete_request("F");
    bench.settle();
    CHECK(bench.answered() == "F F F W1000/fua");
  }

  TEST_CASE("a write that starves a FLUSH does not keep it from being issued at once") {
    Bench bench;
    bench.burst("W1000/fua");
    bench.burst("F");
    bench.advance(5_s);
    bench.burst("W2000/fua");  // its own arrival finds the waiter too old
    CHECK(bench.issued() == "W1000+8 F W2000+8");
  }

  TEST_CASE("the FLUSH goes before what waits for the device") {
    Bench bench;
    bench.driver().slots = 1;
    bench.burst("W1000");
    bench.burst("W2000");
    bench.burst("W3000");
    bench.burst("F");
    CHECK(bench.issued() == "W1000+8");
    bench.complete();
    bench.settle();
    CHECK(bench.issued() == "W1000+8 F");
  }

  TEST_CASE("a FLUSH borrows the tag of its first waiter") {
    Bench bench({.depth = 4});
    bench.burst("R0 R100 R200 F");
    CHECK(bench.queue().hardware_tags().bitmap().busy() == 4);
    CHECK(bench.issued() == "F R0+8 R100+8 R200+8");
    bench.complete_request("F");
    bench.settle();
    CHECK(bench.queue().hardware_tags().bitmap().busy() == 3);
  }

  TEST_CASE("FUA and PREFLUSH requests are not merged") {
    Bench bench;
    bench.burst("W1000 W1008/fua W1016 W1024/preflush W1032");
    CHECK(bench.count('M') == 0);
    complete_in_turn(bench);
    CHECK(bench.answered().find("=") == std::string::npos);
  }

  TEST_CASE("every piece of a cut FUA write is followed by a FLUSH") {
    Limits limits;
    limits.max_sectors = Sectors{256};
    Bench bench({.limits = limits});
    auto& bio = bench.burst("W0+512/fua");
    CHECK(bench.held_text() == "W0+256 W256+256");
    complete_in_turn(bench);
    CHECK(bench.issued() == "W0+256 W256+256 F");
    CHECK(bio.answers == 1);
  }

  TEST_CASE("a device that completes at once") {
    for (const char* bio : {"F", "W0/fua", "W0/preflush", "W0/preflush/fua"}) {
      CAPTURE(bio);
      Bench bench({.complete_inline = true});
      auto& last = bench.burst(std::string(bio) + " W5000 " + bio);
      bench.settle();
      CHECK(last.answers == 1);
      CHECK(bench.queue().inside() == 0);
    }
  }

  TEST_CASE("a refused FLUSH is issued when the device has room again") {
    Bench bench;
    bench.driver().refuse = 1;
    auto& bio = bench.burst("F");
    CHECK(bench.issued() == "");
    bench.lift_refusals();
    bench.settle();
    CHECK(bench.issued() == "F");
    bench.complete();
    bench.settle();
    CHECK(bio.answers == 1);
  }

  TEST_CASE("accounting") {
    struct Row {
      const char* what;
      Cache cache;
      const char* bios;
      std::uint64_t writes, sectors, flushes;
    };
    const Row rows[] = {
        {"fsync", Cache::write_back, "F", 1, 0, 1},
        {"fsync, write through", Cache::write_through, "F", 0, 0, 0},
        {"O_DSYNC write and fsync", Cache::write_back, "W0/fua F", 2, 8, 2},
        {"O_DSYNC write and fsync, FUA", Cache::write_back_fua, "W0/fua F", 2, 8, 1},
        {"PREFLUSH and FUA", Cache::write_back, "W0/preflush/fua", 1, 8, 2},
        {"O_DSYNC write, write through", Cache::write_through, "W0/fua", 1, 8, 0},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      Bench bench(with_cache(row.cache));
      for (std::string bios = row.bios; !bios.empty();) {
        const std::size_t end = std::min(bios.find(' '), bios.size());
        bench.burst(bios.substr(0, end));
        bios.erase(0, end + 1);
        bench.settle();
        while (!bench.held.empty()) {
          CHECK(bench.stats().in_flight == 1);
          bench.advance(10_ms);
          bench.complete();
          bench.settle();
        }
      }
      const Stats stats = bench.stats();
      const auto& writes = stats.groups[static_cast<unsigned>(StatGroup::write)];
      const auto& flushes = stats.groups[static_cast<unsigned>(StatGroup::flush)];
      CHECK(writes.ios == row.writes);
      CHECK(writes.sectors == row.sectors);
      CHECK(flushes.ios == row.flushes);
      CHECK(flushes.ticks_ms == row.flushes * 10);
      CHECK(stats.in_flight == 0);
      CHECK(stats.at_driver[1] == 0);
    }
  }
}
