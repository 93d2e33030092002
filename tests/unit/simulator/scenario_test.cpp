// SPDX-License-Identifier: Apache-2.0
// Scenario files: docs/spec/scenario.md sections 1 and 2.
#include "daemon/scenario.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace elevd::daemon::scenario;
using namespace elevd::sched;

namespace {

Scenario parsed(std::string_view text) {
  const auto scenario = parse_scenario(text, "f");
  REQUIRE_MESSAGE(scenario, (scenario ? "" : scenario.error().what));
  return *scenario;
}

template <class T>
T only(std::string_view text) {
  const Scenario scenario = parsed(text);
  REQUIRE(scenario.statements.size() == 1);
  return std::get<T>(scenario.statements[0].action);
}

std::string problem(std::string_view text) {
  const auto scenario = parse_scenario(text, "f");
  return scenario ? "" : scenario.error().what;
}

BioWords bio(const std::string& word) { return only<Submit>("submit " + word).bios[0]; }

}  // namespace

TEST_SUITE("scenario") {
  TEST_CASE("blanks, comments and empty lines") {
    const Scenario scenario = parsed("# all of it\n\n \t drain  # now\r\nquiesce");
    REQUIRE(scenario.statements.size() == 2);
    CHECK(scenario.statements[0].line == 3);
    CHECK(scenario.statements[1].line == 4);
    CHECK(parsed("").statements.empty());
  }

  TEST_CASE("bios") {
    CHECK(bio("R500").op == Op::read);
    CHECK(bio("R500").start == Sector{500});
    CHECK(bio("R500").length == Sectors{8});
    CHECK(bio("R500").flags == kBioSync);
    CHECK_FALSE(bio("R500").priority);
    CHECK(bio("W1000+16").length == Sectors{16});
    CHECK(bio("D0+8").op == Op::discard);
    CHECK(bio("Z0+8").op == Op::write_zeroes);
    CHECK(bio("F").op == Op::flush);
    CHECK(bio("F").flags == (kBioSync | kBioPreflush));
    CHECK(bio("R1/RT").priority == IoPriority::real_time(4));
    CHECK(bio("R1/RT0").priority == IoPriority::real_time(0));
    CHECK(bio("R1/BE7").priority == IoPriority::best_effort(7));
    CHECK(bio("R1/BE").priority == IoPriority::best_effort(4));
    CHECK_FALSE(bio("R1/BE").has_level);
    CHECK(bio("R1/BE4").has_level);
    CHECK(bio("R1/ID").priority == IoPriority::idle());
    CHECK(bio("W8/async").flags == 0);
    CHECK(bio("W8/BE0/fua").flags == (kBioSync | kBioFua));
    CHECK(bio("W8/pre/fua").flags == (kBioSync | kBioFua | kBioPreflush));
    CHECK(bio("W8/nomerge").flags == (kBioSync | kBioNoMerge));
    CHECK(bio("W8/head").flags == (kBioSync | kBioNoMerge | kBioAtHead));
  }

  TEST_CASE("a task is a first word with a small letter") {
    CHECK(only<Submit>("submit R1").task == "t0");
    CHECK(only<Submit>("single db-1 R1 R9").task == "db-1");
    CHECK(only<Submit>("single db-1 R1 R9").bios.size() == 2);
    CHECK(only<Submit>("single R1").each);
    CHECK_FALSE(only<Submit>("submit R1").each);
  }

  TEST_CASE("device lines before the first bio count as written before all others") {
    const Scenario scenario = parsed(
        "scheduler none\ndevice depth=4 service=1ms read=2us\nset nr_requests 8\n"
        "device size=1G logical=4096 max_hw_sectors_kb=512 max_segments=16 rotational=1 fua=1\n"
        "device stalled flush=5ms\nsubmit R8\ndevice write=3ms\n");
    CHECK(scenario.facts.depth == 4);
    CHECK(scenario.facts.size == Bytes{1U << 30U});
    CHECK(scenario.facts.limits.logical_block == Bytes{4096});
    CHECK(scenario.facts.limits.max_sectors == Sectors{1024});
    CHECK(scenario.facts.limits.max_segments == 16);
    CHECK(scenario.facts.limits.rotational);
    CHECK(scenario.facts.limits.fua);
    CHECK(scenario.stalled);
    CHECK(scenario.timing.service == Duration{1'000'000});
    CHECK(scenario.timing.special[0] == Duration{2'000});
    CHECK_FALSE(scenario.timing.special[1]);
    REQUIRE(scenario.statements.size() == 4);
    const auto& later = std::get<Device>(scenario.statements[3].action);
    CHECK(later.timing.special[0] == Duration{2'000});
    CHECK(later.timing.special[1] == Duration{3'000'000});
    CHECK_FALSE(later.stall);
  }

  TEST_CASE("what is not named stays at its default") {
    const Scenario scenario = parsed("");
    CHECK(scenario.facts.depth == 128);
    CHECK(scenario.facts.size == Bytes{1ULL << 40U});
    CHECK(scenario.facts.limits.max_sectors == Sectors{2560});
    CHECK(scenario.timing.service == Duration{100'000});
    CHECK(scenario.timing.sequential == Duration{300'000});
    CHECK(scenario.timing.random == Duration{3'000'000});
    CHECK(scenario.workers == 1);
  }

  TEST_CASE("jobs") {
    const auto job = only<Job>(
        "job a rw=randrw bs=64K depth=8 batch=4 runtime=1.5s count=9 think=2ms offset=1M size=2M "
        "seed=7");
    CHECK(job.task == "a");
    CHECK(job.kind == JobKind::randrw);
    CHECK(job.block == Sectors{128});
    CHECK(job.depth == 8);
    CHECK(job.batch == 4);
    CHECK(job.runtime == Duration{1'500'000'000});
    CHECK(job.count == 9U);
    CHECK(job.think == Duration{2'000'000});
    CHECK(job.offset == Sector{2048});
    CHECK(job.size == Sectors{4096});
    CHECK(job.seed == 7);
    CHECK(only<Job>("job a rw=read bs=4K depth=1 count=1").size == Sectors{1ULL << 31U});
    CHECK_FALSE(job.async);
    CHECK(only<Job>("job a rw=randrw bs=4K depth=1 count=1 async").async);
  }

  TEST_CASE("the other statements") {
    CHECK(only<Scheduler>("scheduler mq-deadline").name == "mq-deadline");
    CHECK(only<Set>("set write_cache write  back ").value == "write  back");
    CHECK(only<Group>("group g").weight == 100);
    CHECK(
        std::get<Group>(parsed("group g weight=5\ngroup h parent=g").statements[1].action).parent ==
        "g");
    const auto task = only<Task>("task a prio=be/0 worker=3 weight=7");
    CHECK(task.priority == IoPriority::best_effort(0));
    CHECK(task.worker == 3U);
    CHECK(task.weight == 7U);
    CHECK(parsed("task a worker=3").workers == 4);
    CHECK(only<Task>("task a prio=idle").priority == IoPriority::idle());
    CHECK(only<Task>("task a prio=rt/7").priority == IoPriority::real_time(7));
    CHECK(only<Task>("task a nice=-20").priority == IoPriority::unset(2, 0));
    CHECK(only<Task>("task a nice=19").priority == IoPriority::unset(2, 7));
    CHECK_FALSE(only<At>("at 10ms").relative);
    CHECK(only<At>("at +0.5us").time == Duration{500});
    CHECK(only<At>("at +0.5us").relative);
    CHECK(std::get<Release>(parsed("device stalled\nrelease 3").statements[0].action).count == 3U);
    CHECK_FALSE(
        std::get<Release>(parsed("device stalled\nrelease all").statements[0].action).count);
    CHECK(only<Expect>("expect debug/hctx0/sched_tags busy=6").line == "busy=6");
    CHECK(only<ExpectDispatch>("expect-dispatch").bios.empty());
    CHECK(only<ExpectDispatch>("expect-dispatch R1/RT F").bios.size() == 2);
    const auto summary = std::get<ExpectSummary>(
        parsed("submit R0\nexpect-summary t0 mb_s 1.5 2").statements[1].action);
    CHECK(summary.low == doctest::Approx(1.5));
    CHECK(summary.high == doctest::Approx(2));
  }

  TEST_CASE("a bad line says where it is and what is wrong") {
    const struct {
      const char* text;
      const char* what;
    } rows[] = {
        {"\nsubmitt R1", "f:2: 'submitt': no such statement, did you mean submit?"},
        {"drain now", "f:1: drain: unexpected 'now'"},
        {"submit", "f:1: submit: expected a bio"},
        {"submit a", "f:1: submit: expected a bio"},
        {"submit tA R1",
         "f:1: 'tA' is not a name for a task, expected a small letter, then small letters, digits, "
         "_ or -"},
        {"submit all R1", "f:1: 'all' is no name for a task, it is the whole disk"},
        {"submit R1 X2", "f:1: 'X2' is not a bio, expected R, W, D or Z and a sector, or F"},
        {"submit R", "f:1: '' is not valid, expected a whole number from 0 to 9223372036854775807"},
        {"submit R1+0",
         "f:1: '0' is not valid, expected a whole number from 1 to 9223372036854775807"},
        {"submit R1/",
         "f:1: 'R1/': no such suffix /, expected RT, BE, ID, async, fua, pre, nomerge "
         "or head"},
        {"submit R1/XT",
         "f:1: 'R1/XT': no such suffix /XT, expected RT, BE, ID, async, fua, pre, "
         "nomerge or head"},
        {"submit R1/RT8", "f:1: 'R1/RT8': a level is 0 to 7"},
        {"submit R1/ID1", "f:1: 'R1/ID1': /ID has no level"},
        {"submit R1/RT/BE", "f:1: 'R1/RT/BE': two classes"},
        {"submit W8/fua/fua", "f:1: 'W8/fua/fua': /fua is there twice"},
        {"submit R1/fua", "f:1: 'R1/fua': /fua means nothing for this operation"},
        {"submit R1/async", "f:1: 'R1/async': /async means nothing for this operation"},
        {"submit F/head", "f:1: 'F/head': /head means nothing for this operation"},
        {"submit F8", "f:1: 'F8': a flush has no sector"},
        {"device logical=4096\nsubmit R4",
         "f:2: 'R4': start and length must be multiples of the logical block, 8 sectors"},
        {"device size=1M\nsubmit R2041",
         "f:2: 'R2041': behind the end of the device, 2048 sectors"},
        {"device", "f:1: device: expected KEY[=VALUE]..."},
        {"device dept=1", "f:1: device: 'dept': no such key, did you mean depth?"},
        {"device seek=1", "f:1: device: seek takes no value"},
        {"device parallel=2 seek", "f:1: device: seek has one head, it does not go with parallel"},
        {"device seek parallel=2", "f:1: device: seek has one head, it does not go with parallel"},
        {"device service=0us", "f:1: device: '0us' is too short, expected at least 1ns"},
        {"device service=5",
         "f:1: device: '5' is not a time, expected a number with ns, us, ms or s"},
        {"device service=5m",
         "f:1: device: '5m' is not a time, expected a number with ns, us, ms or s"},
        {"device logical=1536", "f:1: device: logical: '1536': expected 512, 1024, 2048 or 4096"},
        {"device fua=2", "f:1: device: fua: '2' is not valid, expected a whole number from 0 to 1"},
        {"device size=1", "f:1: device: size: expected at least 4096"},
        {"submit R1\ndevice depth=4", "f:2: device: depth: only before the first bio"},
        {"job a rw=read bs=4K depth=1 count=1\ndevice size=1M",
         "f:2: device: size: only before the first bio"},
        {"scheduler", "f:1: scheduler: expected a name"},
        {"set nr_requests", "f:1: set: expected ATTR VALUE"},
        {"group", "f:1: group: expected GROUP weight=N [parent=GROUP]"},
        {"group g weight=1001", "f:1: '1001' is not valid, expected a whole number from 1 to 1000"},
        {"group g parent=h", "f:1: 'h': no such group"},
        {"group g depth=1", "f:1: group: unexpected 'depth=1', expected weight=N or parent=GROUP"},
        {"group g\ngroup g", "f:2: 'g': there is a group of this name"},
        {"task a", "f:1: task: expected TASK KEY=VALUE..."},
        {"task a prio=rt",
         "f:1: 'rt' is not a priority, expected rt/0 to rt/7, be/0 to be/7 or idle"},
        {"task a prio=rt/8", "f:1: 'rt/8': a level is 0 to 7"},
        {"task a worker=63", "f:1: '63' is not valid, expected a whole number from 0 to 62"},
        {"task a group=g", "f:1: 'g': no such group"},
        {"group g\ntask a group=g weight=5", "f:2: task: group and weight exclude each other"},
        {"task a nice=20", "f:1: '20' is not valid, expected a whole number from -20 to 19"},
        {"task a nice=-21", "f:1: '-21' is not valid, expected a whole number from -20 to 19"},
        {"task a nice=5x", "f:1: '5x' is not valid, expected a whole number from -20 to 19"},
        {"task a prio=idle nice=5", "f:1: task: expected one of prio and nice, once"},
        {"task a nice=5 prio=idle", "f:1: task: expected one of prio and nice, once"},
        {"task a level=5",
         "f:1: task: unexpected 'level=5', expected prio=, nice=, worker=, group= or weight="},
        {"job a rw=read bs=4K depth=1", "f:1: job: runtime= or count= is missing"},
        {"job a bs=4K depth=1 count=1", "f:1: job: rw= is missing"},
        {"job a rw=trim bs=4K depth=1 count=1",
         "f:1: job: rw: 'trim': expected one of read, write, randread, randwrite, randrw"},
        {"job a rw=read rw=read", "f:1: job: rw is there twice"},
        {"job a rw=read bs=100 depth=1 count=1",
         "f:1: job: bs: expected a multiple of the logical block, 512 bytes"},
        {"job a rw=read bs=4K depth=1 batch=2 count=1", "f:1: job: batch is larger than depth"},
        {"job a rw=read bs=4K depth=1 count=1 size=1K", "f:1: job: size: smaller than one bio"},
        {"job a rw=read bs=4K depth=1 count=1 offset=1T",
         "f:1: job: offset: behind the end of the device"},
        {"job a rw=read bs=4K depth=1 count=1 offset=1 ",
         "f:1: job: offset: expected a multiple of the logical block, 512 bytes"},
        {"job a rw=read bs=4K depth=1 count=1 size=2T",
         "f:1: job: size: behind the end of the device"},
        {"job a rw=read bs=4K depth=1 count=1 sed=2",
         "f:1: job: sed: no such key, did you mean seed?"},
        {"job a rw=randread bs=4K depth=1 count=1 async",
         "f:1: job: async: somebody waits for every read"},
        {"job a rw=write bs=4K depth=1 count=1 async=1", "f:1: job: async: takes no value"},
        {"quiesce\nquiesce", "f:2: quiesce: the queue is quiesced already"},
        {"unquiesce", "f:1: unquiesce: the queue is not quiesced"},
        {"release", "f:1: release: expected a number or all"},
        {"release 1", "f:1: release: the device is not stalled"},
        {"device stalled\nrelease all\nrelease all", "f:3: release: the device is not stalled"},
        {"device stalled\nrelease 0",
         "f:2: '0' is not valid, expected a whole number from 1 to 9223372036854775807"},
        {"at", "f:1: at: expected TIME or +DURATION"},
        {"at 10", "f:1: '10' is not a time, expected a number with ns, us, ms or s"},
        {"at +5ms\nat 4ms", "f:2: at: the clock never goes backwards"},
        {"expect-dispatch W8/fua",
         "f:1: 'W8/fua': a dispatch is known by operation, place and class, not by /fua"},
        {"expect scheduler", "f:1: expect: expected FILE LINE"},
        {"expect-summary t0 seq 0", "f:1: expect-summary: expected TASK KEY LOW HIGH"},
        {"expect-summary t0 seq 0 1", "f:1: 't0': no such task so far"},
        {"expect-summary all sek 0 1", "f:1: 'sek': no such key, did you mean seq?"},
        {"expect-summary all seq x 1", "f:1: 'x' is not a number"},
        {"expect-summary all seq 2 1", "f:1: expect-summary: LOW is above HIGH"},
    };
    for (const auto& row : rows) {
      CAPTURE(row.text);
      CHECK(problem(row.text) == row.what);
    }
  }
}
