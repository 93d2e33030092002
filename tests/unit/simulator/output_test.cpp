// SPDX-License-Identifier: Apache-2.0
// Output, byte for byte: docs/spec/scenario.md section 4.
#include <doctest/doctest.h>

#include <string>

#include "daemon/simulation.hpp"

using namespace elevd::daemon;

namespace {

std::string output(std::string_view text, OutputOptions options = {}) {
  const SimulationResult result = simulate_text(text, "f", options);
  CHECK(result.status == 0);
  CHECK(result.messages == "");
  return result.output;
}

constexpr OutputOptions kDispatch{OutputKind::dispatch, false};
constexpr OutputOptions kSummary{OutputKind::summary, false};

}  // namespace

TEST_SUITE("simulation output") {
  TEST_CASE("events of one plug") {
    CHECK(output("submit R100 R108 W500/RT W92/ID\n") ==
          "0.000000000 Q R100+8 t0\n"
          "0.000000000 G R100+8 t0\n"
          "0.000000000 P - t0\n"
          "0.000000000 Q R108+8 t0\n"
          "0.000000000 M R108+8 t0\n"
          "0.000000000 Q W500+8/RT t0\n"
          "0.000000000 G W500+8/RT t0\n"
          "0.000000000 Q W92+8/ID t0\n"
          "0.000000000 G W92+8/ID t0\n"
          "0.000000000 U 3 t0\n"
          "0.000000000 D R100+16 t0\n"
          "0.000000000 D W500+8/RT t0\n"
          "0.000000000 D W92+8/ID t0\n"
          "0.000100000 C R100+16 t0\n"
          "0.000100000 C W500+8/RT t0\n"
          "0.000100000 C W92+8/ID t0\n");
  }

  TEST_CASE("a bio that is cut") {
    CHECK(output("device max_hw_sectors_kb=128\nsubmit a R0+520\n") ==
          "0.000000000 Q R0+520 a\n"
          "0.000000000 X R0+256,R256+264 a\n"
          "0.000000000 G R0+256 a\n"
          "0.000000000 P - a\n"
          "0.000000000 X R256+256,R512+8 a\n"
          "0.000000000 G R256+256 a\n"
          "0.000000000 U 1 a\n"
          "0.000000000 D R0+256 a\n"
          "0.000000000 P - a\n"
          "0.000000000 G R512+8 a\n"
          "0.000000000 U 1 a\n"
          "0.000000000 D R256+256 a\n"
          "0.000000000 P - a\n"
          "0.000000000 U 1 a\n"
          "0.000000000 D R512+8 a\n"
          "0.000100000 C R0+256 a\n"
          "0.000100000 C R256+256 a\n"
          "0.000100000 C R512+8 a\n");
  }

  TEST_CASE("a flush belongs to the task that waits for it") {
    CHECK(output("device flush=2ms\nsubmit db F\n", {}) ==
          "0.000000000 Q F db\n"
          "0.000000000 G F db\n"
          "0.000000000 D F db\n"
          "0.002000000 C F db\n");
  }

  TEST_CASE("dispatch prints objects only") {
    CHECK(output("submit R100 W500/RT W92/ID\n", kDispatch) == "R100+8\nW500+8/RT\nW92+8/ID\n");
    CHECK(output("submit D0+8 Z8+8\n", kDispatch) == "D0+8\nZ8+8\n");
  }

  TEST_CASE("summary") {
    CHECK(output("device parallel=1\nsubmit R100 R108 R200 R208+16 W500\nsubmit b R0+24\n",
                 kSummary) ==
          "t0 bios=5 dispatched=3 merged_plug=2 merged_bio=0 merged_insert=0 merged_request=0 "
          "seq=0.00 bytes=24576 share=66.67 mb_s=81.92 mean_us=180.00 p50_us=200.00 p95_us=300.00 "
          "p99_us=300.00 max_us=300.00\n"
          "b bios=1 dispatched=1 merged_plug=0 merged_bio=0 merged_insert=0 merged_request=0 "
          "seq=0.00 bytes=12288 share=33.33 mb_s=30.72 mean_us=400.00 p50_us=400.00 p95_us=400.00 "
          "p99_us=400.00 max_us=400.00\n"
          "all bios=6 dispatched=4 merged_plug=2 merged_bio=0 merged_insert=0 merged_request=0 "
          "seq=0.00 bytes=36864 share=100.00 mb_s=92.16 mean_us=216.67 p50_us=200.00 p95_us=400.00 "
          "p99_us=400.00 max_us=400.00\n");
  }

  TEST_CASE("a summary of nothing") {
    CHECK(output("task a prio=idle\n", kSummary) ==
          "all bios=0 dispatched=0 merged_plug=0 merged_bio=0 merged_insert=0 merged_request=0 "
          "seq=0.00 bytes=0 share=0.00 mb_s=0.00 mean_us=0.00 p50_us=0.00 p95_us=0.00 p99_us=0.00 "
          "max_us=0.00\n");
  }

  TEST_CASE("sequential is what starts where the disk's previous dispatch ended") {
    const std::string text = output("single a R0\nsingle b R8\nsingle a R16 R100\n", kSummary);
    CHECK(text.find("a bios=3 dispatched=3 merged_plug=0 merged_bio=0 merged_insert=0 "
                    "merged_request=0 seq=33.33 ") == 0);
    CHECK(text.find("\nb bios=1 dispatched=1 merged_plug=0 merged_bio=0 merged_insert=0 "
                    "merged_request=0 seq=100.00 ") != std::string::npos);
  }

  TEST_CASE("json has the same as objects") {
    CHECK(output("device max_hw_sectors_kb=4\nsubmit W0+16/ID\n", {OutputKind::events, true}) ==
          "{\"t_ns\":0,\"ev\":\"Q\",\"op\":\"W\",\"sector\":0,\"sectors\":16,\"prio\":\"idle\","
          "\"task\":\"t0\"}\n"
          "{\"t_ns\":0,\"ev\":\"X\",\"op\":\"W\",\"sector\":0,\"sectors\":16,\"prio\":\"idle\","
          "\"task\":\"t0\",\"n\":8}\n"
          "{\"t_ns\":0,\"ev\":\"G\",\"op\":\"W\",\"sector\":0,\"sectors\":8,\"prio\":\"idle\","
          "\"task\":\"t0\"}\n"
          "{\"t_ns\":0,\"ev\":\"P\",\"task\":\"t0\"}\n"
          "{\"t_ns\":0,\"ev\":\"G\",\"op\":\"W\",\"sector\":8,\"sectors\":8,\"prio\":\"idle\","
          "\"task\":\"t0\"}\n"
          "{\"t_ns\":0,\"ev\":\"U\",\"task\":\"t0\",\"n\":2}\n"
          "{\"t_ns\":0,\"ev\":\"D\",\"op\":\"W\",\"sector\":0,\"sectors\":8,\"prio\":\"idle\","
          "\"task\":\"t0\"}\n"
          "{\"t_ns\":0,\"ev\":\"D\",\"op\":\"W\",\"sector\":8,\"sectors\":8,\"prio\":\"idle\","
          "\"task\":\"t0\"}\n"
          "{\"t_ns\":100000,\"ev\":\"C\",\"op\":\"W\",\"sector\":0,\"sectors\":8,\"prio\":\"idle\","
          "\"task\":\"t0\"}\n"
          "{\"t_ns\":100000,\"ev\":\"C\",\"op\":\"W\",\"sector\":8,\"sectors\":8,\"prio\":\"idle\","
          "\"task\":\"t0\"}\n");
    CHECK(output("submit F/RT\n", {OutputKind::dispatch, true}) ==
          "{\"t_ns\":0,\"ev\":\"D\",\"op\":\"F\",\"prio\":\"rt/4\",\"task\":\"t0\"}\n");
    CHECK(output("submit R0\n", {OutputKind::summary, true}) ==
          "{\"task\":\"t0\",\"bios\":1,\"dispatched\":1,\"merged_plug\":0,\"merged_bio\":0,"
          "\"merged_insert\":0,\"merged_request\":0,\"seq\":0.00,\"bytes\":4096,\"share\":100.00,"
          "\"mb_s\":40.96,\"mean_us\":100.00,\"p50_us\":100.00,\"p95_us\":100.00,\"p99_us\":100.00,"
          "\"max_us\":100.00}\n"
          "{\"task\":\"all\",\"bios\":1,\"dispatched\":1,\"merged_plug\":0,\"merged_bio\":0,"
          "\"merged_insert\":0,\"merged_request\":0,\"seq\":0.00,\"bytes\":4096,\"share\":100.00,"
          "\"mb_s\":40.96,\"mean_us\":100.00,\"p50_us\":100.00,\"p95_us\":100.00,\"p99_us\":100.00,"
          "\"max_us\":100.00}\n");
  }
}
