// SPDX-License-Identifier: Apache-2.0
// Accepted and refused writes of queue/, row by row: docs/spec/sysfs.md section 3.
#include "sysfs/attribute.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <ostream>

#include "bench.hpp"

namespace elevd::sysfs {
namespace {

bool freezes(const Outcome& outcome, ChangeKind kind) {
  const auto* change = std::get_if<Change>(&outcome);
  return change != nullptr && change->kind == kind;
}

TEST_SUITE("queue attributes") {
  TEST_CASE("a fresh disk shows the values of the measured loop device") {
    const Bench bench;
    for (const auto& [name, shown] : std::initializer_list<std::pair<const char*, const char*>>{
             {"nr_requests", "128\n"},
             {"async_depth", "128\n"},
             {"nomerges", "0\n"},
             {"max_sectors_kb", "1280\n"},
             {"max_hw_sectors_kb", "1280\n"},
             {"max_segments", "128\n"},
             {"max_segment_size", "65536\n"},
             {"max_discard_segments", "1\n"},
             {"discard_granularity", "4096\n"},
             {"discard_max_bytes", "4294966784\n"},
             {"discard_max_hw_bytes", "4294966784\n"},
             {"write_zeroes_max_bytes", "4294966784\n"},
             {"logical_block_size", "512\n"},
             {"hw_sector_size", "512\n"},
             {"physical_block_size", "512\n"},
             {"minimum_io_size", "512\n"},
             {"optimal_io_size", "0\n"},
             {"chunk_sectors", "0\n"},
             {"write_cache", "write back\n"},
             {"fua", "0\n"},
             {"rotational", "0\n"},
             {"read_ahead_kb", "128\n"},
             {"iostats", "1\n"},
             {"rq_affinity", "1\n"},
             {"zoned", "none\n"},
             {"dma_alignment", "511\n"},
         }) {
      CAPTURE(name);
      CHECK(bench.show("queue/" + std::string(name)) == shown);
    }
  }

  TEST_CASE("nr_requests under none goes from 4 to the hardware depth") {
    const Bench bench;
    check_rows(bench, "queue/nr_requests",
               {{"0", 0, "4\n"},
                {"100\n", 0, "100\n"},
                {"3", 0, "4\n"},
                {"4", 0, "4\n"},
                {"010", 0, "10\n"},
                {"128", 0, "128\n"},
                {"129", EINVAL, "128\n"},
                {"2048", EINVAL, "128\n"},
                {"", EINVAL, "128\n"},
                {"0x10", EINVAL, "128\n"},
                {" 8", EINVAL, "128\n"},
                {"8 ", EINVAL, "128\n"},
                {"abc", EINVAL, "128\n"},
                {"-1", EINVAL, "128\n"},
                {"4294967296", EINVAL, "128\n"},
                {"+64", 0, "64\n"}});
  }

  TEST_CASE("nr_requests freezes unless the value is the shown one") {
    const Bench bench;
    CHECK(freezes(bench.outcome("queue/nr_requests", "64"), ChangeKind::depth));
    CHECK(std::holds_alternative<Done>(bench.outcome("queue/nr_requests", "128\n")));
    CHECK(std::holds_alternative<Refused>(bench.outcome("queue/nr_requests", "129")));
    REQUIRE(bench.store("queue/nr_requests", "4") == 0);
    CHECK(std::holds_alternative<Done>(bench.outcome("queue/nr_requests", "2")));
  }

  TEST_CASE("nr_requests under none is the depth of the hardware map, which mq/0 does not show") {
    Bench bench;
    REQUIRE(bench.store("queue/nr_requests", "8") == 0);
    CHECK(bench.queue.hardware_tags().depth() == 8);
    CHECK(bench.show("mq/0/nr_tags") == "128\n");
  }

  TEST_CASE("a disk with fewer tags than the least nr_requests keeps its depth") {
    const Bench bench({.limits = {}, .queue_depth = 2, .workers = 1});
    check_rows(bench, "queue/nr_requests",
               {{"2", 0, "2\n"}, {"1", EINVAL, "2\n"}, {"4", EINVAL, "2\n"}});
  }

  TEST_CASE("async_depth is nr_requests without a scheduler, and cannot be written") {
    const Bench bench;
    check_rows(bench, "queue/async_depth",
               {{"0", EINVAL, "128\n"}, {"64", EINVAL, "128\n"}, {"x", EINVAL, "128\n"}});
    REQUIRE(bench.store("queue/nr_requests", "32") == 0);
    CHECK(bench.show("queue/async_depth") == "32\n");
  }

  TEST_CASE("nomerges: every number but 0 and 2 is 1") {
    const Bench bench;
    check_rows(bench, "queue/nomerges",
               {{"1", 0, "1\n"},
                {"2\n", 0, "2\n"},
                {"3", 0, "1\n"},
                {"0", 0, "0\n"},
                {"4294967295", 0, "1\n"},
                {"-1", EINVAL, "1\n"},
                {"x", EINVAL, "1\n"}});
    CHECK(bench.queue.nomerges() == 1);
  }

  TEST_CASE("max_sectors_kb: 0 is the default, 1 to 3 too small, above the hardware clamped") {
    const Bench bench;
    check_rows(bench, "queue/max_sectors_kb",
               {{"4", 0, "4\n"},
                {"5", 0, "5\n"},
                {"6", 0, "6\n"},
                {"7", 0, "7\n"},
                {"1", EINVAL, "7\n"},
                {"2", EINVAL, "7\n"},
                {"3", EINVAL, "7\n"},
                {"0", 0, "1280\n"},
                {"128\n", 0, "128\n"},
                {"1280", 0, "1280\n"},
                {"1281", 0, "1280\n"},
                {"4294967295", 0, "1280\n"},
                {"x", EINVAL, "1280\n"}});
    CHECK(freezes(bench.outcome("queue/max_sectors_kb", "64"), ChangeKind::limits));
  }

  TEST_CASE("the default of max_sectors_kb is at most 4 MiB") {
    sched::Limits limits;
    limits.max_hw_sectors = sched::Sectors{65536};
    const Bench bench({.limits = limits, .queue_depth = 128, .workers = 1});
    check_rows(bench, "queue/max_sectors_kb", {{"0", 0, "4096\n"}, {"32768", 0, "32768\n"}});
  }

  TEST_CASE("discard_max_bytes: multiples of the granularity; 0 turns it off and can be undone") {
    const Bench bench;
    check_rows(bench, "queue/discard_max_bytes",
               {{"1048576\n", 0, "1048576\n"},
                {"4294966784", EINVAL, "1048576\n"},  // the default is not a multiple
                {"4095", EINVAL, "1048576\n"},
                {"512", EINVAL, "1048576\n"},
                {"-1", EINVAL, "1048576\n"},
                {"4294967296", EINVAL, "1048576\n"},
                {"0", 0, "0\n"}});
    CHECK(bench.show("queue/discard_granularity") == "0\n");
    check_rows(bench, "queue/discard_max_bytes", {{"8192", 0, "8192\n"}});
    CHECK(bench.show("queue/discard_granularity") == "4096\n");
    CHECK(freezes(bench.outcome("queue/discard_max_bytes", "0"), ChangeKind::limits));
  }

  TEST_CASE("discard_max_bytes above the hardware is clamped, without discard it stays 0") {
    sched::Limits limits;
    limits.max_discard = limits.max_hw_discard = sched::Sectors{2048};
    const Bench some({.limits = limits, .queue_depth = 128, .workers = 1});
    check_rows(some, "queue/discard_max_bytes", {{"2097152", 0, "1048576\n"}});
    limits.max_discard = limits.max_hw_discard = sched::Sectors{0};
    const Bench none({.limits = limits, .queue_depth = 128, .workers = 1});
    check_rows(none, "queue/discard_max_bytes", {{"4096", EINVAL, "0\n"}, {"0", 0, "0\n"}});
    CHECK(none.show("queue/discard_granularity") == "0\n");
  }

  TEST_CASE("write_cache goes by how the text begins") {
    const Bench bench;
    check_rows(bench, "queue/write_cache",
               {{"none", 0, "write through\n"},
                {"write back\n", 0, "write back\n"},
                {"noneX", 0, "write through\n"},
                {"write backxyz", 0, "write back\n"},
                {"write through ", 0, "write through\n"},
                {"write  back", EINVAL, "write through\n"},
                {"writeback", EINVAL, "write through\n"},
                {"1", EINVAL, "write through\n"},
                {"", EINVAL, "write through\n"}});
    CHECK_FALSE(bench.queue.limits().write_back);
    CHECK(freezes(bench.outcome("queue/write_cache", "none"), ChangeKind::limits));
  }

  TEST_CASE("write_cache cannot be switched on where there is none") {
    sched::Limits limits;
    limits.write_back = false;
    Bench bench({.limits = limits, .queue_depth = 128, .workers = 1});
    bench.disk.volatile_cache = false;
    check_rows(bench, "queue/write_cache", {{"write back", 0, "write through\n"}});
  }

  TEST_CASE("rotational is a flag of the limits") {
    const Bench bench;
    check_rows(bench, "queue/rotational",
               {{"7", 0, "1\n"}, {"-1", EINVAL, "1\n"}, {"y", EINVAL, "1\n"}});
    CHECK(bench.queue.limits().rotational);
    check_rows(bench, "queue/rotational", {{"0\n", 0, "0\n"}});
  }

  TEST_CASE("read_ahead_kb is rounded down to pages, and overwritten when limits change") {
    const Bench bench;
    check_rows(bench, "queue/read_ahead_kb",
               {{"1", 0, "0\n"},
                {"5", 0, "4\n"},
                {"256\n", 0, "256\n"},
                {"4294967295", 0, "4294967292\n"},
                {"x", EINVAL, "4294967292\n"}});
    REQUIRE(bench.store("queue/rotational", "1") == 0);
    CHECK(bench.show("queue/read_ahead_kb") == "2560\n");
    REQUIRE(bench.store("queue/max_sectors_kb", "512") == 0);
    CHECK(bench.show("queue/read_ahead_kb") == "1024\n");
    REQUIRE(bench.store("queue/rotational", "0") == 0);
    CHECK(bench.show("queue/read_ahead_kb") == "128\n");
  }

  TEST_CASE("two pending changes of the limits do not undo each other") {
    const Bench bench;
    const Outcome first = bench.outcome("queue/max_sectors_kb", "64");
    const Outcome second = bench.outcome("queue/write_cache", "none");
    REQUIRE(std::get<Change>(first).apply() == 0);
    REQUIRE(std::get<Change>(second).apply() == 0);
    CHECK(bench.show("queue/max_sectors_kb") == "64\n");
    CHECK(bench.show("queue/write_cache") == "write through\n");
  }

  TEST_CASE("flags are 0 or 1") {
    const Bench bench;
    for (const char* name : {"iostats", "iostats_passthrough", "add_random", "stable_writes"}) {
      check_rows(bench, "queue/" + std::string(name),
                 {{"5", 0, "1\n"}, {"0\n", 0, "0\n"}, {"-1", EINVAL, "0\n"}, {"", EINVAL, "0\n"}});
    }
    CHECK_FALSE(bench.queue.iostats());
  }

  TEST_CASE("rq_affinity ignores numbers that mean nothing") {
    const Bench bench;
    check_rows(bench, "queue/rq_affinity",
               {{"2", 0, "2\n"}, {"3", 0, "2\n"}, {"x", EINVAL, "2\n"}, {"0", 0, "0\n"}});
  }

  TEST_CASE("what has no meaning here keeps its value") {
    const Bench bench;
    check_rows(bench, "queue/io_poll", {{"0", EINVAL, "0\n"}, {"1", EINVAL, "0\n"}});
    check_rows(bench, "queue/io_poll_delay", {{"anything", 0, "-1\n"}});
    check_rows(bench, "queue/write_zeroes_unmap_max_bytes",
               {{"0", 0, "0\n"}, {"512", EINVAL, "0\n"}, {"x", EINVAL, "0\n"}});
  }
}

}  // namespace
}  // namespace elevd::sysfs
