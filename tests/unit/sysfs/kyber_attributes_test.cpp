// SPDX-License-Identifier: Apache-2.0
// queue/iosched of kyber and its debug files: docs/spec/kyber.md sections 6 to 8.
#include <doctest/doctest.h>

#include <cerrno>
#include <ostream>
#include <string>

#include "bench.hpp"
#include "sched/kyber.hpp"

namespace elevd::sysfs {
namespace {

Bench& with_kyber_on(Bench& bench) {
  REQUIRE(bench.store("queue/scheduler", "kyber\n") == 0);
  return bench;
}

/// A file below the debug directory of the disk.
std::string debug_text(const Bench& bench, const std::string& path) {
  const auto text = bench.tree.show(bench.inode("kernel/debug/block/disk0/" + path));
  return text ? *text : "errno " + std::to_string(text.error());
}

TEST_SUITE("kyber attributes") {
  TEST_CASE("a switch to it: name, depths, files") {
    Bench made;
    const Bench& bench = with_kyber_on(made);
    CHECK(bench.show("queue/scheduler") == "none mq-deadline [kyber] bfq \n");
    CHECK(bench.show("queue/nr_requests") == "256\n");
    CHECK(bench.show("queue/async_depth") == "192\n");
    CHECK(bench.show("queue/iosched/read_lat_nsec") == "2000000\n");
    CHECK(bench.show("queue/iosched/write_lat_nsec") == "10000000\n");
    CHECK(bench.of_disk("queue/iosched/fifo_batch") == 0);
    CHECK(bench.of_disk("queue/iosched/async_depth") == 0);
    CHECK(bench.tree.status(bench.of_disk("queue/iosched/read_lat_nsec"))->permissions == 0644);
  }

  TEST_CASE("what is taken and refused, by the table of docs/spec/kyber.md 7") {
    Bench made;
    const Bench& bench = with_kyber_on(made);
    for (const char* name : {"read_lat_nsec", "write_lat_nsec"}) {
      check_rows(bench, std::string("queue/iosched/") + name,
                 {{"7", 0, "7\n"},
                  {"+8\n", 0, "8\n"},
                  {"010", 0, "10\n"},
                  {"0", 0, "0\n"},
                  {"18446744073709551615\n", 0, "18446744073709551615\n"},
                  {"18446744073709551616", ERANGE, "18446744073709551615\n"},
                  {"0x10", EINVAL, "18446744073709551615\n"},
                  {"-1", EINVAL, "18446744073709551615\n"},
                  {"abc", EINVAL, "18446744073709551615\n"},
                  {" 5", EINVAL, "18446744073709551615\n"},
                  {"5 ", EINVAL, "18446744073709551615\n"},
                  {"1e6", EINVAL, "18446744073709551615\n"},
                  {"5\n\n", EINVAL, "18446744073709551615\n"}});
    }
    CHECK(bench.show("queue/iosched/read_lat_nsec") == "18446744073709551615\n");
    REQUIRE(bench.store("queue/iosched/read_lat_nsec", "5") == 0);
    CHECK(bench.show("queue/iosched/write_lat_nsec") == "18446744073709551615\n");
  }

  TEST_CASE("targets are lost with the scheduler, and an old file of them is ENODEV") {
    Bench made;
    const Bench& bench = with_kyber_on(made);
    const Inode old = bench.of_disk("queue/iosched/read_lat_nsec");
    REQUIRE(bench.store("queue/iosched/read_lat_nsec", "5") == 0);
    REQUIRE(bench.store("queue/scheduler", "kyber") == 0);
    CHECK(bench.show("queue/iosched/read_lat_nsec") == "5\n");
    made.queue.set_elevator(nullptr);  // switched, and not published yet
    CHECK(bench.tree.show(old).error() == ENODEV);
    CHECK(std::get<Refused>(bench.tree.store(old, "5")).error == ENODEV);
    CHECK(debug_text(bench, "sched/read_tokens") == "errno " + std::to_string(ENODEV));
    REQUIRE(bench.store("queue/scheduler", "mq-deadline") == 0);
    CHECK(bench.of_disk("queue/iosched/read_lat_nsec") == 0);
    CHECK(bench.inode("kernel/debug/block/disk0/hctx0/sched") == 0);
    REQUIRE(bench.store("queue/scheduler", "kyber") == 0);
    CHECK(bench.show("queue/iosched/read_lat_nsec") == "2000000\n");
  }

  TEST_CASE("async_depth: three quarters, and scaled") {
    Bench made;
    const Bench& bench = with_kyber_on(made);
    check_rows(bench, "queue/nr_requests", {{"128", 0, "128\n"}});
    CHECK(bench.show("queue/async_depth") == "96\n");
    check_rows(bench, "queue/async_depth", {{"128", 0, "128\n"}, {"0", EINVAL, "128\n"}});
    check_rows(bench, "queue/nr_requests", {{"8", 0, "8\n"}});
    CHECK(bench.show("queue/async_depth") == "8\n");
  }

  TEST_CASE("the debug files of docs/spec/kyber.md 8") {
    Bench made;
    const Bench& bench = with_kyber_on(made);
    const std::string rest =
        "wake_index=0\nws_active=0\nws={\n\t{.wait=inactive},\n\t{.wait=inactive},\n"
        "\t{.wait=inactive},\n\t{.wait=inactive},\n\t{.wait=inactive},\n\t{.wait=inactive},\n"
        "\t{.wait=inactive},\n\t{.wait=inactive},\n}\nround_robin=0\n"
        "min_shallow_depth=4294967295\n";
    CHECK(debug_text(bench, "sched/read_tokens") ==
          "depth=256\nbusy=0\ncleared=0\nbits_per_word=64\nmap_nr=4\nalloc_hint={0}\n"
          "wake_batch=8\n" +
              rest);
    CHECK(debug_text(bench, "sched/other_tokens") ==
          "depth=16\nbusy=0\ncleared=0\nbits_per_word=4\nmap_nr=4\nalloc_hint={0}\n"
          "wake_batch=2\n" +
              rest);
    CHECK(debug_text(bench, "sched/write_tokens").starts_with("depth=128\n"));
    CHECK(debug_text(bench, "sched/discard_tokens").starts_with("depth=64\n"));
    CHECK(debug_text(bench, "hctx0/sched/cur_domain") == "READ\n");
    CHECK(debug_text(bench, "hctx0/sched/batching") == "0\n");
    for (const char* domain : {"read", "write", "discard", "other"}) {
      const std::string file = std::string("hctx0/sched/") + domain;
      CHECK(debug_text(bench, file + "_rqs") == "");
      CHECK(debug_text(bench, file + "_waiting") == "0\n");
    }
    CHECK(bench.inode("kernel/debug/block/disk0/sched/async_depth") == 0);
    CHECK(
        bench.tree.status(bench.inode("kernel/debug/block/disk0/sched/read_tokens"))->permissions ==
        0400);
  }

  TEST_CASE("the debug files while requests wait for tokens") {
    Bench made;
    const Bench& bench = with_kyber_on(made);
    made.queue.with_elevator([&](sched::Elevator* elevator) {
      std::vector<sched::Request> requests(20);
      sched::RequestList list, merged;
      for (sched::Request& rq : requests) {
        rq.op = sched::Op::write_zeroes;
        list.push_back(rq);
      }
      elevator->insert(list, merged, {});
      std::vector<sched::Request*> out;
      while (sched::Request* rq = elevator->dispatch({})) out.push_back(rq);
      CHECK(out.size() == 16);
      const auto& kyber = dynamic_cast<sched::Kyber&>(*elevator);
      CHECK(kyber.pool(sched::KyberDomain::other).view().parked == 1);
      CHECK(kyber.pool(sched::KyberDomain::other).view().busy == 16);
      CHECK(kyber.flushed(sched::KyberDomain::other).size() == 4);
      for (sched::Request* rq : out) static_cast<void>(elevator->completed(*rq, {}));
      while (sched::Request* rq = elevator->dispatch({})) {
        static_cast<void>(elevator->completed(*rq, {}));
      }
    });
    CHECK(debug_text(bench, "hctx0/sched/cur_domain") == "OTHER\n");
    CHECK(debug_text(bench, "hctx0/sched/batching") == "0\n");
    CHECK(debug_text(bench, "sched/other_tokens").find("\nwake_index=1\n") != std::string::npos);
  }
}

}  // namespace
}  // namespace elevd::sysfs
