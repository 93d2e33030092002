// SPDX-License-Identifier: Apache-2.0
// The debug tree without a scheduler, and its files that take commands: docs/spec/sysfs.md 8.
#include <doctest/doctest.h>

#include <cerrno>
#include <ostream>
#include <string>

#include "../sched/bench.hpp"
#include "sysfs/tree.hpp"

namespace elevd::sysfs {
namespace {

using SchedBench = sched::test::Bench;

/// A tree over a disk with workers and a device.
struct DebugBench {
  explicit DebugBench(SchedBench::Options options = {}) : bench(options) {
    disk.name = "disk0";
    disk.queue = &bench.queue();
    disk.now = [this] { return bench.now(); };
    disk.run_queue = [this] { ++runs; };
  }

  [[nodiscard]] Inode inode(std::string path) {
    if (disk.tree == nullptr) REQUIRE(tree.add_disk(disk) == 0);
    path = "kernel/debug/block/disk0/" + path;
    Inode at = kRootInode;
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      const auto found = tree.lookup(at, path.substr(begin, end - begin));
      if (!found) return 0;
      at = found->inode;
      begin = end + 1;
    }
    return at;
  }
  [[nodiscard]] std::string show(const std::string& path) {
    const auto text = tree.show(inode(path));
    return text ? *text : "errno " + std::to_string(text.error());
  }
  int store(const std::string& path, std::string_view text) {
    const Outcome outcome = tree.store(inode(path), text);
    const auto* refused = std::get_if<Refused>(&outcome);
    return refused != nullptr ? refused->error : 0;
  }

  SchedBench bench;
  Disk disk;
  Tree tree;
  unsigned runs = 0;
};

unsigned lines(const std::string& text) {
  return static_cast<unsigned>(std::count(text.begin(), text.end(), '\n'));
}

TEST_SUITE("debug files") {
  TEST_CASE("state takes run, start and kick, with white space around, and nothing else") {
    DebugBench debug;
    CHECK(debug.tree.check_open(debug.inode("state"), true, true) == 0);
    CHECK(debug.tree.status(debug.inode("state"))->permissions == 0600);
    CHECK(debug.show("state") == "SAME_COMP|INIT_DONE|REGISTERED\n");
    CHECK(debug.store("state", "run\n") == 0);
    CHECK(debug.runs == 1);
    CHECK(debug.store("state", " start ") == 0);
    CHECK(debug.runs == 2);
    CHECK(debug.store("state", "kick") == 0);
    CHECK(debug.runs == 2);
    for (const char* text : {"", "\n", "stop", "runs", "RUN", "run kick", "1"}) {
      CAPTURE(text);
      CHECK(debug.store("state", text) == EINVAL);
    }
    CHECK(debug.runs == 2);
    debug.disk.run_queue = nullptr;
    CHECK(debug.store("state", "run") == 0);
  }

  TEST_CASE("the software queue of each worker, and the map of them") {
    DebugBench debug({.workers = 3});
    SchedBench& bench = debug.bench;
    CHECK(debug.show("hctx0/ctx_map") == "00000000: 00\n");
    bench.queue().quiesce();
    bench.burst("W1000/sync R2000", 1);
    bench.burst("W3000", 2);
    CHECK(debug.show("hctx0/ctx_map") == "00000000: 06\n");
    CHECK(debug.show("hctx0/cpu0/default_rq_list") == "");
    const std::string list = debug.show("hctx0/cpu1/default_rq_list");
    CHECK(lines(list) == 2);
    CHECK(list.find("{.op=WRITE, .cmd_flags=SYNC, .rq_flags=IO_STAT, .state=idle, .tag=") == 17);
    CHECK(list.find(".op=READ") > list.find('\n'));
    CHECK(lines(debug.show("hctx0/cpu2/default_rq_list")) == 1);
    for (const char* name : {"poll_rq_list", "read_rq_list"}) {
      CHECK(debug.show(std::string("hctx0/cpu1/") + name) == "");
    }
    CHECK(debug.inode("hctx0/cpu3") == 0);
    CHECK(debug.tree.status(debug.inode("hctx0/cpu2/default_rq_list"))->permissions == 0400);
    bench.queue().unquiesce(bench.worker());
    bench.settle();
    CHECK(debug.show("hctx0/ctx_map") == "00000000: 00\n");
    CHECK(debug.show("hctx0/cpu1/default_rq_list") == "");
    CHECK(lines(debug.show("hctx0/busy")) == 3);
  }

  TEST_CASE("the map has a byte for each eight workers") {
    DebugBench debug({.workers = 17});
    debug.bench.queue().quiesce();
    debug.bench.burst("W1000", 16);
    CHECK(debug.show("hctx0/ctx_map") == "00000000: 0000 01\n");
    CHECK(lines(debug.show("hctx0/cpu16/default_rq_list")) == 1);
    debug.bench.queue().unquiesce(debug.bench.worker());
  }

  TEST_CASE("constants") {
    DebugBench debug;
    CHECK(debug.show("hctx0/flags") == "STACKING\n");
    CHECK(debug.show("hctx0/type") == "default\n");
    CHECK(debug.show("hctx0/active") == "0\n");
    CHECK(debug.show("requeue_list") == "");
  }

  TEST_CASE("device is there for a modelled device, and passes commands on") {
    DebugBench plain;
    CHECK(plain.inode("device") == 0);
    DebugBench debug;
    std::string command;
    int error = 0;
    debug.disk.device_command = [&](std::string_view text) {
      command = text;
      return error;
    };
    debug.disk.device_state = [] { return std::string("stalled=0\n"); };
    CHECK(debug.tree.check_open(debug.inode("device"), true, true) == 0);
    CHECK(debug.tree.status(debug.inode("device"))->permissions == 0600);
    CHECK(debug.show("device") == "stalled=0\n");
    CHECK(debug.store("device", "release 3\n") == 0);
    CHECK(command == "release 3\n");
    error = EINVAL;
    CHECK(debug.store("device", "junk") == EINVAL);
  }
}

}  // namespace
}  // namespace elevd::sysfs
