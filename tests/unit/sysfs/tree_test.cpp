// SPDX-License-Identifier: Apache-2.0
#include "sysfs/tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <ostream>
#include <set>

#include "bench.hpp"

namespace elevd::sysfs {
namespace {

constexpr Attribute kOldTunables[] = {constant("fifo_batch", "16\n"),
                                      constant("read_expire", "500\n")};
constexpr Attribute kNewTunables[] = {constant("read_lat_nsec", "2000000\n")};

std::vector<std::string> names(const Bench& bench, std::string_view path) {
  std::vector<std::string> list;
  const auto entries = bench.tree.entries(bench.inode(path));
  if (!entries) return list;
  for (const Entry& entry : *entries) list.push_back(entry.name);
  return list;
}

void collect(const Tree& tree, Inode directory, std::set<Inode>& inodes) {
  const std::vector<Entry> entries = tree.entries(directory).value();
  for (const Entry& entry : entries) {
    if (entry.name == "." || entry.name == "..") continue;
    CHECK(inodes.insert(entry.inode).second);
    if (entry.directory) collect(tree, entry.inode, inodes);
  }
}

TEST_SUITE("tree") {
  TEST_CASE("it mirrors the paths of Linux") {
    const Bench bench;
    using List = std::vector<std::string>;
    CHECK(names(bench, "") == List{".", "..", "block", "kernel"});
    CHECK(names(bench, "block") == List{".", "..", "disk0"});
    CHECK(names(bench, "kernel/debug/block") == List{".", "..", "disk0"});
    CHECK(names(bench, "block/disk0/mq") == List{".", "..", "0"});
    CHECK(names(bench, "block/disk0/mq/0") ==
          List{".", "..", "cpu_list", "nr_reserved_tags", "nr_tags"});
  }

  TEST_CASE("stat shows files of 4096 bytes and directories of none") {
    const Bench bench;
    const auto file = bench.tree.status(bench.of_disk("queue/nr_requests")).value();
    CHECK_FALSE(file.directory);
    CHECK(file.permissions == 0644);
    CHECK(file.size == 4096);
    CHECK(file.links == 1);
    CHECK(bench.tree.status(bench.of_disk("size")).value().permissions == 0444);
    const auto directory = bench.tree.status(bench.inode("block/disk0")).value();
    CHECK(directory.directory);
    CHECK(directory.permissions == 0755);
    CHECK(directory.size == 0);
    CHECK(directory.links == 5);  // elevd, mq, queue
  }

  TEST_CASE("a file that cannot be written is not opened for it, whatever its mode says") {
    Bench bench;
    const Inode size = bench.of_disk("size");
    CHECK(bench.tree.check_open(size, true, false) == 0);
    CHECK(bench.tree.check_open(size, false, true) == EACCES);
    CHECK(bench.tree.check_open(size, true, true) == EACCES);
    REQUIRE(bench.tree.set_permissions(size, 0644) == 0);
    CHECK(bench.tree.status(size).value().permissions == 0644);
    CHECK(bench.tree.check_open(size, false, true) == EACCES);
    CHECK(std::get<Refused>(bench.tree.store(size, "1")).error == EACCES);

    const Inode depth = bench.of_disk("queue/nr_requests");
    CHECK(bench.tree.check_open(depth, true, true) == 0);
    REQUIRE(bench.tree.set_permissions(depth, 0444) == 0);
    CHECK(bench.tree.check_open(depth, true, true) == EACCES);
    CHECK(bench.tree.check_open(bench.of_disk("queue"), true, false) == EISDIR);
  }

  TEST_CASE("owners are kept") {
    Bench bench;
    const Inode depth = bench.of_disk("queue/nr_requests");
    REQUIRE(bench.tree.set_owner(depth, 7, std::nullopt) == 0);
    REQUIRE(bench.tree.set_owner(depth, std::nullopt, 8) == 0);
    CHECK(bench.tree.status(depth).value().user == 7U);
    CHECK(bench.tree.status(depth).value().group == 8U);
  }

  TEST_CASE("what never was is ENOENT, what is gone is ENODEV") {
    Bench bench;
    const Inode file = bench.of_disk("queue/nr_requests");
    CHECK(bench.tree.lookup(bench.of_disk("queue"), "nothing").error() == ENOENT);
    CHECK(bench.tree.status(99999).error() == ENOENT);
    CHECK(bench.tree.status(0).error() == ENOENT);
    bench.tree.remove_disk("disk0");
    CHECK(bench.inode("block/disk0") == 0);
    CHECK(bench.inode("kernel/debug/block/disk0") == 0);
    CHECK(bench.inode("block") != 0);
    CHECK(bench.tree.show(file).error() == ENODEV);
    CHECK(std::get<Refused>(bench.tree.store(file, "64")).error == ENODEV);
    CHECK(bench.tree.check_open(file, true, false) == ENODEV);
    CHECK(bench.tree.status(file).error() == ENODEV);
    CHECK(bench.tree.set_permissions(file, 0600) == ENODEV);
  }

  TEST_CASE("inode numbers are given once, also to a disk that comes back") {
    Bench bench;
    std::set<Inode> inodes{kRootInode};
    collect(bench.tree, kRootInode, inodes);
    const Inode before = bench.of_disk("size");
    const std::size_t count = inodes.size();
    CHECK(bench.tree.add_disk(bench.disk) == EEXIST);
    bench.tree.remove_disk("disk0");
    REQUIRE(bench.tree.add_disk(bench.disk) == 0);
    collect(bench.tree, bench.inode("block/disk0"), inodes);
    CHECK(inodes.size() > count);
    CHECK(bench.show("size") == "2097152\n");
    CHECK(bench.tree.show(before).error() == ENODEV);
  }

  TEST_CASE("the directory of a scheduler is replaced, and taken away") {
    Bench bench;
    REQUIRE(bench.tree.set_directory("disk0", "queue/iosched", kOldTunables) == 0);
    CHECK(bench.show("queue/iosched/fifo_batch") == "16\n");
    const Inode old = bench.of_disk("queue/iosched/fifo_batch");
    REQUIRE(bench.tree.set_directory("disk0", "queue/iosched", kNewTunables) == 0);
    CHECK(names(bench, "block/disk0/queue/iosched") ==
          std::vector<std::string>{".", "..", "read_lat_nsec"});
    CHECK(bench.tree.show(old).error() == ENODEV);
    REQUIRE(bench.tree.set_directory("disk0", "queue/iosched", {}) == 0);
    CHECK(bench.of_disk("queue/iosched") == 0);
    CHECK(bench.tree.set_directory("other", "queue/iosched", kOldTunables) == ENOENT);
    CHECK(bench.tree.set_directory("disk0", "no/iosched", kOldTunables) == ENOENT);
    CHECK(bench.tree.set_directory("disk0", "size/iosched", kOldTunables) == ENOTDIR);
  }

  TEST_CASE("directories are listed, files are not") {
    const Bench bench;
    CHECK(bench.tree.entries(bench.of_disk("size")).error() == ENOTDIR);
    const auto list = bench.tree.entries(bench.inode("block/disk0/queue")).value();
    CHECK(list[0].inode == bench.inode("block/disk0/queue"));
    CHECK(list[1].inode == bench.inode("block/disk0"));
    CHECK(std::is_sorted(list.begin() + 2, list.end(),
                         [](const Entry& a, const Entry& b) { return a.name < b.name; }));
    CHECK(bench.tree.show(bench.of_disk("queue")).error() == EISDIR);
    CHECK(std::get<Refused>(bench.tree.store(bench.of_disk("queue"), "1")).error == EISDIR);
  }
}

}  // namespace
}  // namespace elevd::sysfs
