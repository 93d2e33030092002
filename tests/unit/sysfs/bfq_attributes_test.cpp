// SPDX-License-Identifier: Apache-2.0
// queue/iosched of bfq: docs/spec/bfq.md section 16, and depths, section 14.
#include <doctest/doctest.h>

#include <cerrno>
#include <ostream>
#include <string>

#include "bench.hpp"

namespace elevd::sysfs {
namespace {

Bench& with_bfq(Bench& bench) {
  REQUIRE(bench.store("queue/scheduler", "bfq") == 0);
  return bench;
}

TEST_SUITE("bfq attributes") {
  TEST_CASE("defaults") {
    Bench made;
    const Bench& bench = with_bfq(made);
    CHECK(bench.show("queue/scheduler").find("[bfq] ") != std::string::npos);
    CHECK(bench.show("queue/iosched/fifo_expire_sync") == "125\n");
    CHECK(bench.show("queue/iosched/fifo_expire_async") == "250\n");
    CHECK(bench.show("queue/iosched/back_seek_max") == "16384\n");
    CHECK(bench.show("queue/iosched/back_seek_penalty") == "2\n");
    CHECK(bench.show("queue/iosched/slice_idle") == "8\n");
    CHECK(bench.show("queue/iosched/slice_idle_us") == "8000\n");
    CHECK(bench.show("queue/iosched/max_budget") == "0\n");
    CHECK(bench.show("queue/iosched/timeout_sync") == "124\n");
    CHECK(bench.show("queue/iosched/strict_guarantees") == "0\n");
    CHECK(bench.show("queue/iosched/low_latency") == "1\n");
    CHECK(bench.inode("kernel/debug/block/disk0/sched/queued") == 0);
  }

  TEST_CASE("what is taken, clamped and refused, by every file") {
    Bench made;
    const Bench& bench = with_bfq(made);
    for (const char* name : {"fifo_expire_sync", "fifo_expire_async", "back_seek_max",
                             "back_seek_penalty", "slice_idle", "slice_idle_us", "max_budget"}) {
      CAPTURE(name);
      check_rows(bench, std::string("queue/iosched/") + name,
                 {{"7", 0, "7\n"},
                  {"+5\n", 0, "5\n"},
                  {"010", 0, "10\n"},
                  {"-1", EINVAL, "10\n"},
                  {"0x10", EINVAL, "10\n"},
                  {"3.5", EINVAL, "10\n"},
                  {" 1", EINVAL, "10\n"},
                  {"1 ", EINVAL, "10\n"},
                  {"\n", EINVAL, "10\n"},
                  {"text", EINVAL, "10\n"},
                  {"18446744073709551616", ERANGE, "10\n"},
                  {std::string(5000, '9'), ERANGE, "10\n"}});
    }
    for (const char* name : {"timeout_sync", "strict_guarantees", "low_latency"}) {
      const std::string path = std::string("queue/iosched/") + name;
      const std::string before = bench.show(path);
      check_rows(bench, path,
                 {{"-1", EINVAL, before},
                  {"0x1", EINVAL, before},
                  {"", EINVAL, before},
                  {"18446744073709551616", ERANGE, before}});
    }
  }

  TEST_CASE("ranges") {
    Bench made;
    const Bench& bench = with_bfq(made);
    for (const char* name : {"fifo_expire_sync", "fifo_expire_async", "back_seek_penalty"}) {
      check_rows(bench, std::string("queue/iosched/") + name,
                 {{"0", 0, "1\n"}, {"9999999999", 0, "2147483647\n"}});
    }
    for (const char* name : {"back_seek_max", "max_budget"}) {
      check_rows(bench, std::string("queue/iosched/") + name,
                 {{"0", 0, "0\n"}, {"9999999999", 0, "2147483647\n"}});
    }
    for (const char* name : {"strict_guarantees", "low_latency"}) {
      check_rows(bench, std::string("queue/iosched/") + name,
                 {{"2", 0, "1\n"}, {"0", 0, "0\n"}, {"1", 0, "1\n"}});
    }
    check_rows(bench, "queue/iosched/timeout_sync",
               {{"0", 0, "4\n"},
                {"1", 0, "4\n"},
                {"4", 0, "4\n"},
                {"5", 0, "8\n"},
                {"125", 0, "128\n"},
                {"99999999999", 0, "2147483648\n"}});
  }

  TEST_CASE("slice_idle: two files of one value; strict_guarantees raises it once") {
    Bench made;
    const Bench& bench = with_bfq(made);
    check_rows(bench, "queue/iosched/slice_idle_us", {{"1500", 0, "1500\n"}});
    CHECK(bench.show("queue/iosched/slice_idle") == "1\n");
    check_rows(bench, "queue/iosched/slice_idle", {{"3", 0, "3\n"}});
    CHECK(bench.show("queue/iosched/slice_idle_us") == "3000\n");
    check_rows(bench, "queue/iosched/strict_guarantees", {{"1", 0, "1\n"}});
    CHECK(bench.show("queue/iosched/slice_idle") == "8\n");
    check_rows(bench, "queue/iosched/slice_idle", {{"2", 0, "2\n"}});
    check_rows(bench, "queue/iosched/strict_guarantees", {{"1", 0, "1\n"}, {"0", 0, "0\n"}});
    CHECK(bench.show("queue/iosched/slice_idle") == "2\n");
    check_rows(bench, "queue/iosched/slice_idle", {{"20", 0, "20\n"}, {"2147483647", 0, "4294\n"}});
    check_rows(bench, "queue/iosched/slice_idle_us", {{"99999999999", 0, "4294967\n"}});
  }

  TEST_CASE("async_depth is three quarters, and the wake batch 1 whatever it is") {
    Bench made;
    const Bench& bench = with_bfq(made);
    CHECK(bench.show("queue/nr_requests") == "256\n");
    CHECK(bench.show("queue/async_depth") == "192\n");
    CHECK(made.queue.allocation_tags().min_shallow_depth() == 1);
    CHECK(made.queue.allocation_tags().wake_batch() == 1);
    check_rows(bench, "queue/async_depth", {{"256", 0, "256\n"}});
    CHECK(made.queue.allocation_tags().wake_batch() == 1);
    check_rows(bench, "queue/nr_requests", {{"64", 0, "64\n"}});
    CHECK(bench.show("queue/async_depth") == "64\n");
  }

  TEST_CASE("tunables are gone with a switch, and kept when the name is written again") {
    Bench made;
    const Bench& bench = with_bfq(made);
    const Inode old = bench.of_disk("queue/iosched/max_budget");
    check_rows(bench, "queue/iosched/max_budget", {{"77", 0, "77\n"}});
    REQUIRE(bench.store("queue/scheduler", "bfq") == 0);
    CHECK(bench.show("queue/iosched/max_budget") == "77\n");
    REQUIRE(bench.store("queue/scheduler", "mq-deadline") == 0);
    CHECK(bench.of_disk("queue/iosched/max_budget") == 0);
    CHECK(!bench.tree.show(old).has_value());
    REQUIRE(bench.store("queue/scheduler", "bfq") == 0);
    CHECK(bench.show("queue/iosched/max_budget") == "0\n");
  }

  TEST_CASE("group_weights: what is taken and refused") {
    sched::Groups groups;
    Bench made({.limits = {}, .groups = &groups});
    const Bench& bench = with_bfq(made);
    const std::string path = "queue/iosched/group_weights";
    CHECK(bench.show(path) == "default 100\n");
    check_rows(bench, path,
               {{"200", 0, "default 200\n"},
                {"default 1\n", 0, "default 1\n"},
                {"default   1000 \n", 0, "default 1000\n"},
                {"/b 300", 0, "default 1000\n/b 300\n"},
                {"/a/with blank  7\n", 0, "default 1000\n/a/with blank 7\n/b 300\n"},
                {"/b 1", 0, "default 1000\n/a/with blank 7\n/b 1\n"},
                {"/b default\n", 0, "default 1000\n/a/with blank 7\n"},
                {"/never/seen default", 0, "default 1000\n/a/with blank 7\n"}});
    const std::string before = bench.show(path);
    for (const char* refused : {"0", "1001", "10000", "18446744073709551616", "0x64", "default 0",
                                "/b 0", "/b 1001", "/b 0x64", "/b 18446744073709551616"}) {
      check_rows(bench, path, {{refused, ERANGE, before}});
    }
    for (const char* refused :
         {"", "\n", " ", "-1", "text", "7x", "default", "default -1", "default text", "/b", "/b -1",
          "/b text", "/b 5x", "b 100", "/ 100", "/b/ 100", "//b 100", "8:0 100", "/a\nb 100"}) {
      check_rows(bench, path, {{refused, EINVAL, before}});
    }
  }

  TEST_CASE("group_weights are kept while another scheduler is there, the file is not") {
    sched::Groups groups;
    Bench made({.limits = {}, .groups = &groups});
    const Bench& bench = with_bfq(made);
    const Inode old = bench.of_disk("queue/iosched/group_weights");
    check_rows(bench, "queue/iosched/group_weights", {{"/a 5", 0, "default 100\n/a 5\n"}});
    REQUIRE(bench.store("queue/scheduler", "none") == 0);
    CHECK(!bench.tree.show(old).has_value());
    REQUIRE(bench.store("queue/scheduler", "bfq") == 0);
    CHECK(bench.show("queue/iosched/group_weights") == "default 100\n/a 5\n");
  }
}

}  // namespace
}  // namespace elevd::sysfs
