// SPDX-License-Identifier: Apache-2.0
// queue/iosched of mq-deadline, async_depth and the debug tree: docs/spec/sysfs.md 3, 5, 8.
#include <doctest/doctest.h>

#include <cerrno>
#include <ostream>
#include <string>

#include "bench.hpp"

namespace elevd::sysfs {
namespace {

Bench& with_deadline(Bench& bench) {
  REQUIRE(bench.store("queue/scheduler", "mq-deadline") == 0);
  return bench;
}

TEST_SUITE("mq-deadline attributes") {
  TEST_CASE("defaults") {
    Bench made;
    const Bench& bench = with_deadline(made);
    CHECK(bench.show("queue/iosched/read_expire") == "500\n");
    CHECK(bench.show("queue/iosched/write_expire") == "5000\n");
    CHECK(bench.show("queue/iosched/writes_starved") == "2\n");
    CHECK(bench.show("queue/iosched/front_merges") == "1\n");
    CHECK(bench.show("queue/iosched/fifo_batch") == "16\n");
    CHECK(bench.show("queue/iosched/prio_aging_expire") == "10000\n");
    CHECK(bench.of_disk("queue/iosched/async_depth") == 0);
  }

  TEST_CASE("what is taken, clamped and refused") {
    Bench made;
    const Bench& bench = with_deadline(made);
    for (const char* name : {"read_expire", "write_expire", "prio_aging_expire", "fifo_batch"}) {
      check_rows(bench, std::string("queue/iosched/") + name,
                 {{"7", 0, "7\n"},
                  {"0x10", 0, "16\n"},
                  {"010\n", 0, "8\n"},
                  {"+5", 0, "5\n"},
                  {"-1", 0, "0\n"},
                  {"2147483647", 0, "2147483647\n"},
                  {"2147483648", ERANGE, "2147483647\n"},
                  {"-2147483649", ERANGE, "2147483647\n"},
                  {"abc", EINVAL, "2147483647\n"},
                  {" 1", EINVAL, "2147483647\n"},
                  {"1 ", EINVAL, "2147483647\n"},
                  {"1\n\n", EINVAL, "2147483647\n"},
                  {"1.5", EINVAL, "2147483647\n"},
                  {"1k", EINVAL, "2147483647\n"}});
    }
    check_rows(bench, "queue/iosched/front_merges",
               {{"0", 0, "0\n"}, {"7", 0, "1\n"}, {"-5", 0, "0\n"}, {"2", 0, "1\n"}});
    check_rows(bench, "queue/iosched/writes_starved",
               {{"-1", 0, "-1\n"},
                {"-2147483648", 0, "-2147483648\n"},
                {"2147483647", 0, "2147483647\n"},
                {"2147483648", ERANGE, "2147483647\n"}});
  }

  TEST_CASE("a tunable that was stored has the queue run, a refused one has not") {
    Bench bench;
    with_deadline(bench);
    unsigned runs = 0;
    bench.disk.run_queue = [&runs] { ++runs; };
    for (const char* name : {"read_expire", "write_expire", "prio_aging_expire", "fifo_batch",
                             "writes_starved", "front_merges"}) {
      CAPTURE(name);
      runs = 0;
      const std::string path = std::string("queue/iosched/") + name;
      CHECK(bench.store(path, "junk") == EINVAL);
      CHECK(bench.store(path, "2147483648") == ERANGE);
      CHECK(runs == 0);
      CHECK(bench.store(path, "1") == 0);
      CHECK(runs == 1);
    }
  }

  TEST_CASE("async_depth: with a scheduler 1 to nr_requests, scaled with it, reset by a switch") {
    Bench bench;
    check_rows(bench, "queue/async_depth", {{"5", EINVAL, "128\n"}, {"0", EINVAL, "128\n"}});
    with_deadline(bench);
    check_rows(bench, "queue/async_depth",
               {{"0", EINVAL, "256\n"},
                {"x", EINVAL, "256\n"},
                {"4294967296", EINVAL, "256\n"},
                {"64", 0, "64\n"},
                {"100000", 0, "256\n"},
                {"64\n", 0, "64\n"}});
    CHECK(bench.queue.allocation_tags().min_shallow_depth() == 64);
    check_rows(bench, "queue/nr_requests",
               {{"2049", EINVAL, "256\n"}, {"2048", 0, "2048\n"}, {"3", 0, "4\n"}});
    CHECK(bench.show("queue/async_depth") == "1\n");
    CHECK(bench.queue.allocation_tags().wake_batch() == 1);
    REQUIRE(bench.store("queue/scheduler", "none") == 0);
    CHECK(bench.show("queue/async_depth") == "128\n");
  }

  TEST_CASE("the debug tree") {
    Bench bench;
    const std::string debug = "kernel/debug/block/disk0/";
    const auto show = [&](const std::string& path) {
      const auto text = bench.tree.show(bench.inode(debug + path));
      return text ? *text : "errno " + std::to_string(text.error());
    };
    CHECK(show("hctx0/sched_tags") == "");
    CHECK(show("hctx0/busy") == "");
    CHECK(
        show("hctx0/tags")
            .starts_with("nr_tags=128\nnr_reserved_tags=0\nactive_queues=0\n\nbitmap_tags:\ndepth="
                         "128\nbusy=0\n"
                         "cleared=0\nbits_per_word=32\nmap_nr=4\nalloc_hint={0}\nwake_batch=8\n"));
    with_deadline(bench);
    CHECK(show("hctx0/sched_tags").find("depth=256\nbusy=0\n") != std::string::npos);
    CHECK(show("hctx0/sched_tags").ends_with("round_robin=0\nmin_shallow_depth=256\n"));
    const std::string empty = "0000 0000 0000 0000 0000 0000 0000 0000\n";
    CHECK(show("hctx0/sched_tags_bitmap") == "00000000: " + empty + "00000010: " + empty);
    CHECK(show("sched/queued") == "0 0 0\n");
    CHECK(show("sched/owned_by_driver") == "0 0 0\n");
    CHECK(show("sched/batching") == "0\n");
    CHECK(show("sched/starved") == "0\n");
    for (const char* file : {"dispatch", "read0_fifo_list", "write2_fifo_list", "read1_next_rq"}) {
      CHECK(show(std::string("sched/") + file) == "");
    }
    CHECK(show("merge").find("bio_merge attempts=0 skips=0 hits=0\n") != std::string::npos);
    CHECK(bench.tree.status(bench.inode(debug + "hctx0/tags"))->permissions == 0400);
  }
}

}  // namespace
}  // namespace elevd::sysfs
