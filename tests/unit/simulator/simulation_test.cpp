// SPDX-License-Identifier: Apache-2.0
// The rules of a simulation: docs/spec/scenario.md section 3.
#include "daemon/simulation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace elevd::daemon;

namespace {

/// Runs and expects what the scenario itself expects.
void holds(std::string_view text) {
  const SimulationResult result = simulate_text(text, "f", {OutputKind::dispatch, false});
  CAPTURE(text);
  CHECK(result.messages == "");
  CHECK(result.status == 0);
}

std::string events(std::string_view text) {
  const SimulationResult result = simulate_text(text, "f", {});
  CHECK(result.status == 0);
  return result.output;
}

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_SUITE("simulation") {
  TEST_CASE("code takes no time: a statement acts at the current time") {
    holds(
        "device depth=2\nsubmit R0\nsubmit R100\n"
        "expect-dispatch R0 R100\nat 50us\nexpect-dispatch\n"
        "submit R200\nexpect-dispatch\nat 100us\nexpect-dispatch R200\n");
  }

  TEST_CASE("at runs what is due up to and including that time") {
    holds(
        "device parallel=1\nsubmit R0 R100\nexpect disk/inflight        2        0\n"
        "at 99999ns\nexpect disk/inflight        2        0\n"
        "at 100us\nexpect disk/inflight        1        0\n"
        "at +100us\nexpect disk/inflight        0        0\n");
  }

  TEST_CASE("one look-ahead is not what none has: bios wait for a tag") {
    holds(
        "device depth=4\nsubmit R0 R100 R200 R300 R400 R500\n"
        "expect-dispatch R0 R100 R200 R300\nat 100us\nexpect-dispatch R400 R500\n");
  }

  TEST_CASE("a bio that waits holds back everything its task submits later") {
    holds(
        "device depth=4\nsubmit R0 R100 R200 R300 R400\nsubmit R500\nsubmit b R600\n"
        "at 100us\nexpect-dispatch R0 R100 R200 R300 R400 R600 R500\n");
    const std::string text =
        events("device depth=4\nsubmit R0 R100 R200 R300 R400 R500\nat 10us\nsubmit R600\n");
    CHECK(text.find("0.000000000 Q R400+8 t0\n") != std::string::npos);
    CHECK(text.find("0.000100000 Q R500+8 t0\n") != std::string::npos);
    CHECK(text.find("0.000100000 Q R600+8 t0\n") != std::string::npos);
  }

  TEST_CASE("its plug is flushed when a bio waits") {
    const std::string text = events("device depth=4\nsubmit R0 R100 R200 R300 R400\n");
    CHECK(text.find("0.000000000 Q R400+8 t0\n0.000000000 U 4 t0\n") != std::string::npos);
  }

  TEST_CASE("single: every bio in a plug of its own") {
    const std::string text = events("single R0 R8\n");
    CHECK(text.find("U 1 t0\n0.000000000 D R0+8 t0\n0.000000000 Q R8+8 t0\n") != std::string::npos);
  }

  TEST_CASE("single: so has every piece of one; submit: a piece waits for the next one's tag") {
    const auto order = [](const std::string& statement) {
      const std::string text = events("set max_sectors_kb 128\nquiesce\n" + statement +
                                      "\nexpect-dispatch\nunquiesce\n");
      std::string letters;
      for (std::size_t at = 12; at < text.size(); at = text.find('\n', at) + 13) {
        if (text[at] != 'Q' && text[at] != 'D' && text[at] != 'C') letters += text[at];
      }
      return letters;
    };
    CHECK(order("single R0+768") == "XGPUIXGPUIGPUI");
    CHECK(order("submit R0+768") == "XGPXGUIPGUIPUI");
  }

  TEST_CASE("tasks go on in the order they became able to") {
    holds(
        "device depth=4\nsubmit R0 R100 R200 R300\nsubmit a R1000\nsubmit b R2000\n"
        "submit c R3000\ntask b worker=1\nat 100us\n"
        "expect-dispatch R0 R100 R200 R300 R1000 R2000 R3000\n");
    holds(
        "task b worker=1\ntask c worker=2\ndevice depth=4\nsubmit R0 R100 R200 R300\n"
        "submit c R3000\nsubmit b R2000\nsubmit a R1000\nat 100us\n"
        "expect-dispatch R0 R100 R200 R300 R3000 R2000 R1000\n");
  }

  TEST_CASE("a task's priority is for its later bios, a bio's own goes first") {
    holds(
        "submit R0\ntask t0 prio=rt/2\nsubmit R100 R200/BE7\ntask t0 prio=idle\nsubmit R300\n"
        "expect-dispatch R0 R100/RT2 R200/BE7 R300/ID\n");
  }

  TEST_CASE("quiesce: admitted and inserted, not dispatched") {
    holds("quiesce\nsubmit R0 R100\nat 1s\nexpect-dispatch\nunquiesce\nexpect-dispatch R0 R100\n");
    holds("quiesce\nsubmit R0\n");
  }

  TEST_CASE("a stalled device takes requests up to its depth and serves none") {
    holds(
        "device depth=4 stalled\nsubmit R0 R100 R200 R300 R400 R500\ndrain\n"
        "expect-dispatch R0 R100 R200 R300\nrelease 1\nexpect-dispatch R400\n"
        "release 2\nexpect-dispatch R500\nrelease all\nsubmit R600\nexpect-dispatch R600\n");
    holds("device stalled\nsubmit R0\n");
  }

  TEST_CASE("release completes the oldest first, even one that was served before the stall") {
    const std::string text = events(
        "submit R0\nat 50us\nsubmit R100\ndevice stalled\nat 1s\nrelease 1\nat 2s\nrelease all\n");
    CHECK(text.find("1.000000000 C R0+8 t0\n2.000000000 C R100+8 t0\n") != std::string::npos);
  }

  TEST_CASE("a change of the device is for what begins later") {
    const std::string text =
        events("device parallel=1\nsubmit R0 R100\nat 50us\ndevice service=1ms\n");
    CHECK(text.find("0.000100000 C R0+8 t0\n0.001100000 C R100+8 t0\n") != std::string::npos);
  }

  TEST_CASE("a store that needs a drained queue waits for it; later bios wait at the gate") {
    const std::string text = events(
        "submit R0\nset max_sectors_kb 64\nsubmit R1000+256\nat 50us\nexpect max_sectors_kb 1280\n"
        "drain\nexpect max_sectors_kb 64\n");
    CHECK(text.find("0.000000000 Q R1000+256 t0\n0.000100000 C R0+8 t0\n"
                    "0.000100000 X R1000+128,R1128+128 t0\n") != std::string::npos);
  }

  TEST_CASE("changes on an idle queue are made at once") {
    holds("set nr_requests 16\nexpect nr_requests 16\nexpect async_depth 16\n");
    holds("scheduler none\nexpect nr_requests 128\n");
  }

  TEST_CASE("a second depth change meets a pending one: EBUSY, the run ends") {
    const SimulationResult result = simulate_text(
        "submit R0\nset nr_requests 16\n\nset nr_requests 32\nexpect nr_requests 1\n", "f", {});
    CHECK(result.status == kSimulationBad);
    CHECK(result.messages == "f:4: nr_requests: Device or resource busy\n");
  }

  TEST_CASE("a refused store ends the run") {
    const struct {
      const char* text;
      const char* message;
    } rows[] = {
        {"set nr_requests 129", "f:1: nr_requests: Invalid argument\n"},
        {"set nr_request 1", "f:1: nr_request: No such file or directory\n"},
        {"set logical_block_size 512", "f:1: logical_block_size: Permission denied\n"},
        {"scheduler zebra", "f:1: scheduler: Invalid argument\n"},
        {"at 1s\ndrain\nsubmit R0\ndrain\nat 2s\ndrain\nset iosched 1",
         "f:7: iosched: No such file or directory\n"},
    };
    for (const auto& row : rows) {
      CAPTURE(row.text);
      const SimulationResult result = simulate_text(row.text, "f", {OutputKind::summary, false});
      CHECK(result.status == kSimulationBad);
      CHECK(result.messages == row.message);
      CHECK(result.output == "");
    }
  }

  TEST_CASE("a bad line: nothing is simulated") {
    const SimulationResult result = simulate_text("submit R0\nsubmit X\n", "f", {});
    CHECK(result.status == kSimulationBad);
    CHECK(result.output == "");
    CHECK(result.messages == "f:2: 'X' is not a bio, expected R, W, D or Z and a sector, or F\n");
  }

  TEST_CASE("the clock never goes backwards") {
    const SimulationResult result = simulate_text("submit R0\ndrain\nat 10us\n", "f", {});
    CHECK(result.status == kSimulationBad);
    CHECK(result.messages == "f:3: at: the clock is at 0.000100000 already\n");
  }

  TEST_CASE("a failed expectation says what came instead, and the run goes on") {
    const SimulationResult result = simulate_text(
        "submit R0 W100/RT0\nexpect-dispatch R0\nexpect-dispatch W8/BE0\nsubmit F\n"
        "expect-dispatch R0/BE4\nexpect nr_requests 7\nexpect nr_request 7\n"
        "expect-summary t0 bios 0 2.5\nexpect-summary all seq 0 0\n",
        "f", {OutputKind::dispatch, false});
    CHECK(result.status == kSimulationFailed);
    CHECK(result.messages ==
          "f:2: expected R0+8, got R0+8 W100+8/RT\n"
          "f:3: expected W8+8/BE0, got none\n"
          "f:5: expected R0+8/BE4, got F\n"
          "f:6: expected nr_requests: 7, got 128\n"
          "f:7: expected nr_request: 7, got No such file or directory\n"
          "f:8: expected t0 bios from 0 to 2.5, got 3\n");
    CHECK(result.output == "R0+8\nW100+8/RT\nF\n");
  }

  TEST_CASE("a job keeps its depth and ends after its count") {
    const std::string text = events("job a rw=read bs=4K depth=2 count=5\n");
    CHECK(lines(text) == 5 * 6);
    CHECK(text.find("0.000200000 C R32+8 a\n") == std::string::npos);
    CHECK(text.find("0.000300000 C R32+8 a\n") != std::string::npos);
  }

  TEST_CASE("a job submits a batch in one plug, the rest of its count too") {
    const SimulationResult result = simulate_text("job a rw=write bs=4K depth=4 batch=4 count=6\n",
                                                  "f", {OutputKind::dispatch, false});
    CHECK(result.output == "W0+32\nW32+16\n");
  }

  TEST_CASE("a job ends after its runtime") {
    const SimulationResult result = simulate_text("job a rw=read bs=4K depth=1 runtime=1ms\n", "f",
                                                  {OutputKind::dispatch, false});
    CHECK(lines(result.output) == 10);
  }

  TEST_CASE("a job thinks before its place is free") {
    const std::string text = events("job a rw=read bs=4K depth=1 count=2 think=1ms\n");
    CHECK(text.find("0.001100000 Q R8+8 a\n") != std::string::npos);
  }

  TEST_CASE("nobody waits for the writes of an asynchronous job") {
    // Raised issuers aside, bfq gives a request that nobody waits for half of the tags.
    for (const auto& [words, tags] : {std::pair{"", "busy=12"}, std::pair{" async", "busy=8"}}) {
      const SimulationResult result =
          simulate_text(std::string("device depth=16 stalled\nscheduler bfq\nset nr_requests 16\n"
                                    "set iosched/low_latency 0\n"
                                    "job a rw=randwrite bs=4K depth=16 count=16") +
                            words + "\nexpect debug/hctx0/sched_tags " + tags + "\nrelease all\n",
                        "f", {OutputKind::dispatch, false});
      CHECK(result.messages.empty());
    }
  }

  TEST_CASE("a task with a nice value is best effort for whoever looks at classes") {
    const SimulationResult result = simulate_text(
        "task a nice=19\nsubmit a R0\nexpect-dispatch R0/BE4\n", "f", {OutputKind::events, true});
    CHECK(result.messages.empty());
    CHECK(result.output.find("\"prio\":\"be/4\"") != std::string::npos);
  }

  TEST_CASE("a sequential job wraps in its region") {
    const SimulationResult result =
        simulate_text("job a rw=read bs=4K depth=1 count=5 offset=4K size=12K\n", "f",
                      {OutputKind::dispatch, false});
    CHECK(result.output == "R8+8\nR16+8\nR24+8\nR8+8\nR16+8\n");
  }

  TEST_CASE("random jobs draw from splitmix64") {
    // The first numbers from seed 1: 10451216379200822465, 13757245211066428519.
    const std::uint64_t blocks = 100;
    const SimulationResult result = simulate_text(
        "job a rw=randread bs=4K depth=1 count=2 size=400K\n", "f", {OutputKind::dispatch, false});
    CHECK(result.output == "R" + std::to_string(10451216379200822465U % blocks * 8) + "+8\nR" +
                               std::to_string(13757245211066428519U % blocks * 8) + "+8\n");
    const SimulationResult mixed = simulate_text(
        "job a rw=randrw bs=4K depth=1 count=64 size=400K\n", "f", {OutputKind::dispatch, false});
    CHECK(mixed.output.find("W" + std::to_string(10451216379200822465U % blocks * 8) + "+8\n") ==
          0);
    CHECK(mixed.output.find('R') != std::string::npos);
  }

  TEST_CASE("the same scenario gives the same bytes") {
    const std::string text =
        "device depth=8 seek\nset nr_requests 6\ntask b worker=1 prio=idle\ntask c worker=2\n"
        "job a rw=randrw bs=64K depth=8 batch=3 runtime=200ms seed=3\n"
        "job b rw=randread bs=4K depth=4 runtime=200ms think=1ms\n"
        "job c rw=write bs=2M depth=2 runtime=200ms\nat 50ms\nset max_sectors_kb 64\n";
    for (const OutputKind kind : {OutputKind::events, OutputKind::summary}) {
      const SimulationResult one = simulate_text(text, "f", {kind, false});
      const SimulationResult two = simulate_text(text, "f", {kind, false});
      CHECK(one.status == 0);
      CHECK(one.output.size() > 300);
      CHECK(one.output == two.output);
    }
  }
}
