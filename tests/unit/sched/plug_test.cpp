// SPDX-License-Identifier: Apache-2.0
// Plugging and the merging inside a plug: docs/spec/plug-and-merge.md sections 2, 3, 4, 7.
#include "sched/plug.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "bench.hpp"
#include "sched/mq_deadline.hpp"

using namespace elevd::sched;
using elevd::sched::test::Bench;
using elevd::sched::test::series;

namespace {

/// 4 KiB reads at offsets given in KiB, as the tables of the specification write them.
std::string reads_at_kib(std::initializer_list<unsigned> offsets) {
  std::string text;
  for (const unsigned kib : offsets) text += "R" + std::to_string(kib * 2) + "+8 ";
  return text;
}

/// Writes far apart, sizes in KiB.
std::string scattered(std::initializer_list<unsigned> sizes) {
  std::string text;
  unsigned at = 0;
  for (const unsigned kib : sizes) {
    text += "W" + std::to_string(at) + "+" + std::to_string(kib * 2) + " ";
    at += 10000;
  }
  return text;
}

Limits limits_with_max_kib(std::uint64_t kib) {
  Limits limits;
  limits.max_sectors = Sectors{kib * 2};
  return limits;
}

}  // namespace

TEST_SUITE("plug") {
  TEST_CASE("the worked sequences of plug merging come out as measured") {
    struct Row {
      const char* what;
      std::string submitted;
      std::size_t back, front;
      std::string issued;
    };
    const Row rows[] = {
        {"40 ascending", series('R', 0, 8, 8, 40), 39, 0, "R0+320"},
        {"front, front, back, far", reads_at_kib({8, 4, 0, 12, 1000}), 1, 2, "R0+32 R2000+8"},
        {"descending", reads_at_kib({28, 24, 20, 16, 12, 8, 4, 0}), 0, 7, "R0+64"},
        {"not next to the newest", reads_at_kib({0, 1000, 4}), 0, 0, "R0+8 R2000+8 R8+8"},
        {"in front of the newest", reads_at_kib({0, 8, 4}), 0, 1, "R0+8 R8+16"},
        {"priorities differ", "R0 R8/IDLE R16", 0, 0, "R0+8 R8+8 R16+8"},
        {"max_segments", series('R', 0, 8, 8, 200), 198, 0, "R0+1024 R1024+576"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      Bench bench;
      bench.burst(row.submitted);
      CHECK(bench.count('M') == row.back);
      CHECK(bench.count('F') == row.front);
      CHECK(bench.issued() == row.issued);
      CHECK(bench.events("I") == "");
    }
  }

  TEST_CASE("max_sectors ends a merge") {
    Bench bench({.limits = limits_with_max_kib(64)});
    bench.burst(series('R', 0, 8, 8, 20));
    CHECK(bench.count('M') == 18);
    CHECK(bench.issued() == "R0+128 R128+32");
  }

  TEST_CASE("a merged bio costs no tag") {
    Bench bench({.depth = 4});
    bench.burst(series('W', 0, 8, 8, 40));
    CHECK(bench.queue().hardware_tags().bitmap().busy() == 1);
    CHECK(bench.issued() == "W0+320");
  }

  TEST_CASE("merged bios are answered one by one in list order") {
    Bench bench;
    bench.burst("W1008 W1000 W1016 W992");
    CHECK(bench.issued() == "W992+32");
    bench.complete();
    bench.answer(0);
    CHECK(bench.answered() == "W992 W1000 W1008 W1016");
  }

  TEST_CASE("nomerges") {
    struct Row {
      unsigned nomerges;
      std::string merges, issued;
    };
    const Row rows[] = {
        {0, "M R8+8, F R100+8", "R0+16 R100+16"},
        {1, "M R8+8, F R100+8", "R0+16 R100+16"},
        {2, "", "R0+8 R8+8 R108+8 R100+8"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.nomerges);
      Bench bench;
      bench.queue().set_nomerges(row.nomerges);
      bench.burst("R0 R8 R108 R100");
      CHECK(bench.events("MF") == row.merges);
      CHECK(bench.issued() == row.issued);
    }
  }

  TEST_CASE("when the plug is flushed") {
    struct Row {
      const char* what;
      std::string submitted;
      unsigned nomerges;
      std::string flushes;
    };
    const Row rows[] = {
        {"count limit 32", series('R', 0, 8, 100, 70), 0, "U32, U32, U6"},
        {"exactly 32 wait for the end", series('R', 0, 8, 100, 32), 0, "U32"},
        {"33", series('R', 0, 8, 100, 33), 0, "U32, U1"},
        {"a large one that is not the oldest", scattered({4, 128, 4, 4, 4}), 0, "U5"},
        {"the oldest is large", scattered({128, 4, 4, 4, 4}), 0, "U1, U4"},
        {"just below the size", scattered({124, 4, 4}), 0, "U3"},
        {"every one is large", scattered({128, 256, 128}), 0, "U1, U1, U1"},
        {"size test off", scattered({128, 4, 4, 4, 4}), 2, "U5"},
        {"nomerges 1 leaves the size test", scattered({128, 4, 4, 4, 4}), 1, "U1, U4"},
        {"count test stays", series('R', 0, 8, 100, 70), 2, "U32, U32, U6"},
        {"a merging bio never flushes", "R0+256 R256+8 R264+8", 0, "U1"},
        {"the oldest grew by merging", series('R', 0, 8, 8, 32) + "R5000 R6000", 0, "U1, U2"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      Bench bench;
      bench.queue().set_nomerges(row.nomerges);
      bench.burst(row.submitted);
      CHECK(bench.events("U") == row.flushes);
    }
  }

  TEST_CASE("the limits are tested when a request is appended, before it is") {
    Bench bench;
    bench.submit("R0+256");
    CHECK(bench.events("GPU") == "G R0+256, P");
    bench.submit("R5000");
    CHECK(bench.events("GPUD") == "G R0+256, P, G R5000+8, U1, D R0+256, P");
    bench.flush_plug();
    CHECK(bench.events("GPUD") == "G R0+256, P, G R5000+8, U1, D R0+256, P, U1, D R5000+8");
  }

  TEST_CASE("an empty plug reports nothing") {
    Bench bench;
    bench.flush_plug();
    CHECK(bench.recorder.events.empty());
  }

  TEST_CASE("a request that refused a neighbour for a limit takes nobody and is no longer tried") {
    Bench bench({.limits = limits_with_max_kib(64)});
    bench.submit("R1000+120");
    bench.submit("R1120+16");  // 8 sectors too many
    bench.submit("R1136");     // joins the newest
    CHECK(bench.events("MF") == "M R1136+8");
    bench.flush_plug();
    CHECK(bench.issued() == "R1000+120 R1120+24");
  }

  TEST_CASE("one request serves as the one-hit cache even after a bio that may not merge") {
    Bench bench;
    bench.submit("W1000 W2000/nomerge W1008 W2008");
    CHECK(bench.events("MF") == "");
    bench.flush_plug();
    CHECK(bench.issued() == "W1000+8 W2000+8 W1008+8 W2008+8");
  }

  TEST_CASE("a plug of several queues: newest request per queue, grouped per queue") {
    Bench bench({.queues = 2});
    bench.submit("W1000/q0 W5000/q1 W1008/q0 W5008/q1 W1016/q0 W9000/q1 W1024/q0");
    CHECK(bench.events("MF") == "M W1008+8, M W5008+8, M W1016+8, M W1024+8");
    bench.flush_plug();
    CHECK(bench.issued() == "W1000+32 W5000+16 W9000+8");
    CHECK(bench.events("U") == "U3");
  }

  TEST_CASE("grouping keeps the order inside a queue, the first request's queue goes first") {
    Bench bench({.queues = 3});
    bench.burst("W8000/q1 W100/q0 W200/q2 W8100/q1 W300/q0 W400/q2");
    CHECK(bench.issued() == "W8000+8 W8100+8 W100+8 W300+8 W200+8 W400+8");
  }

  TEST_CASE("a plug of several queues takes 64 requests") {
    Bench bench({.queues = 2});
    std::string text = "W0/q1 ";
    for (unsigned n = 1; n < 70; ++n) text += "W" + std::to_string(n * 100) + "/q0 ";
    bench.burst(text);
    CHECK(bench.events("U") == "U64, U6");
  }

  TEST_CASE("a plug that becomes one of several queues late has the higher limit from then on") {
    Bench bench({.queues = 2});
    std::string text;
    for (unsigned n = 1; n <= 31; ++n) text += "W" + std::to_string(n * 100) + "/q0 ";
    text += "W0/q1 ";
    for (unsigned n = 32; n <= 70; ++n) text += "W" + std::to_string(n * 100) + "/q0 ";
    bench.burst(text);
    CHECK(bench.events("U") == "U64, U7");
  }

  TEST_CASE("plugs belong to their worker: no merging from one into another") {
    Bench bench({.workers = 2});
    bench.submit("W1000", 0);
    bench.submit("W1008", 1);
    CHECK(bench.count('M') == 0);
    bench.flush_plug(1);
    bench.flush_plug(0);
    CHECK(bench.issued() == "W1008+8 W1000+8");
  }
}

TEST_SUITE("split") {
  TEST_CASE("a large bio in a batch: a piece waits until the next one has its tag") {
    Bench bench({.limits = limits_with_max_kib(128)});
    bench.burst("R0+1024");
    CHECK(bench.events("GXPUID") ==
          "X R0+256, G R0+256, P, "
          "X R256+256, G R256+256, U1, D R0+256, P, "
          "X R512+256, G R512+256, U1, D R256+256, P, "
          "G R768+256, U1, D R512+256, P, U1, D R768+256");
  }

  TEST_CASE("a large bio that was submitted alone: each piece has a plug of its own") {
    // Said by the submitter; or the driver is asked, once, and only if the bio is cut.
    for (const bool said : {true, false}) {
      CAPTURE(said);
      Bench bench({.limits = limits_with_max_kib(128)});
      bench.driver().alone = !said;
      bench.burst(said ? "R0+1024/single" : "R0+1024");
      CHECK(bench.driver().asked_for_end == 1);
      CHECK(bench.events("GXPUID") ==
            "X R0+256, G R0+256, P, U1, D R0+256, "
            "X R256+256, G R256+256, P, U1, D R256+256, "
            "X R512+256, G R512+256, P, U1, D R512+256, "
            "G R768+256, P, U1, D R768+256");
      bench.burst("R0+256 R5000");
      CHECK(bench.driver().asked_for_end == 1);
    }
  }

  TEST_CASE("alone, with a scheduler, and when a piece has to wait for its tag") {
    Bench bench({.depth = 4, .limits = limits_with_max_kib(128)});
    bench.queue().set_elevator(std::make_unique<MqDeadline>());
    bench.queue().set_nr_requests(4);
    bench.burst("R0+1280/single");
    CHECK(bench.events("XU") == "X R0+256, U1, X R256+256, U1, X R512+256, U1, X R768+256, U1");
    CHECK(bench.held_text() == "R0+256 R256+256 R512+256 R768+256");
    bench.complete();
    bench.settle();
    CHECK(bench.held_text() == "R256+256 R512+256 R768+256 R1024+256");
  }

  TEST_CASE("not the first of its burst: not alone, whatever follows") {
    Bench bench({.limits = limits_with_max_kib(128)});
    bench.driver().alone = true;
    bench.burst("R9000 R0+512");
    CHECK(bench.driver().asked_for_end == 0);
    CHECK(bench.events("U") == "U3");
  }

  TEST_CASE("200 KiB and 4 KiB behind it with a limit of 128 KiB") {
    Bench bench({.limits = limits_with_max_kib(128)});
    bench.burst("R0+400 R400+8");
    CHECK(bench.events("XGMFUD") ==
          "X R0+256, G R0+256, G R256+144, U1, D R0+256, M R400+8, U1, D R256+152");
  }

  TEST_CASE("a front piece takes nobody, the last piece may join") {
    Bench bench({.limits = limits_with_max_kib(128)});
    bench.submit("R1000 R1008+264");  // the first piece does not join R1000
    CHECK(bench.events("XGM") == "G R1000+8, X R1008+256, G R1008+256, G R1264+8");
    bench.submit("R992");
    CHECK(bench.count('F') == 0);
    bench.flush_plug();
  }

  TEST_CASE("a cut bio is answered once, after all its pieces, with the first error") {
    struct Row {
      std::size_t order[3];
      int errors[3];
      int answer;
    };
    const Row rows[] = {
        {{0, 0, 0}, {0, 0, 0}, 0},
        {{2, 1, 0}, {0, 0, 0}, 0},
        {{1, 0, 0}, {5, 28, 0}, 5},
        {{2, 0, 0}, {0, 0, 61}, 61},
    };
    for (const Row& row : rows) {
      Bench bench({.limits = limits_with_max_kib(128)});
      auto& bio = bench.burst("W0+700");
      REQUIRE(bench.held.size() == 3);
      for (unsigned n = 0; n < 3; ++n) {
        CHECK(bio.answers == 0);
        bench.complete_at(row.order[n], row.errors[n], 0);
        bench.answer(0);
      }
      CHECK(bio.answers == 1);
      CHECK(bio.answer == row.answer);
    }
  }

  TEST_CASE("a no-wait bio that would have to be cut fails with EAGAIN and takes no tag") {
    Bench bench({.limits = limits_with_max_kib(128)});
    auto& bio = bench.burst("R0+264/nowait");
    bench.settle();
    CHECK(bio.answer == 11);
    CHECK(bench.issued() == "");
    CHECK(bench.queue().hardware_tags().bitmap().busy() == 0);
    bench.burst("R0+256/nowait");
    CHECK(bench.issued() == "R0+256");
  }

  TEST_CASE("an error of a single piece, said by Bio::fail, reaches the submitted bio") {
    Bench bench({.limits = limits_with_max_kib(128)});
    auto& bio = bench.burst("W0+300");
    REQUIRE(bench.held.size() == 2);
    bench.held[0]->first->fail(5);
    bench.complete_all();
    bench.answer(0);
    CHECK(bio.answer == 5);
    // The request is used again by somebody else, who has no error.
    auto& second = bench.burst("W0+300");
    bench.complete_all();
    bench.answer(0);
    CHECK(second.answer == 0);
  }

  TEST_CASE("an error of a single bio of a merged request stays with that bio") {
    Bench bench;
    bench.burst("W0 W8 W16");
    REQUIRE(bench.held.size() == 1);
    bench.held[0]->first->next->fail(5);
    bench.complete();
    bench.answer(0);
    CHECK(bench.answered() == "W0 W8=5 W16");
  }
}
