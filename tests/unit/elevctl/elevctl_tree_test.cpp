// SPDX-License-Identifier: Apache-2.0
#include "daemon/elevctl_tree.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "fake_tree.hpp"

using elevd::daemon::Tree;
using elevd::daemon::testing::FakeTree;

TEST_SUITE("elevctl tree") {
  TEST_CASE("disks are the entries of sys/block, sorted, links too") {
    const FakeTree fake;
    fake.add_disk("z");
    fake.add_disk("a");
    fake.link("m", fake.block() + "/a");
    const Tree tree(fake.directory());
    CHECK(tree.disks().value() == std::vector<std::string>{"a", "m", "z"});
    CHECK(tree.has_disk("m"));
    CHECK_FALSE(tree.has_disk("b"));
    CHECK_FALSE(tree.has_disk(""));
    CHECK_FALSE(tree.has_disk("."));
    CHECK_FALSE(tree.has_disk(".."));
    CHECK_FALSE(tree.has_disk("a/queue"));
  }

  TEST_CASE("slashes at the end of the directory do not matter") {
    CHECK(Tree("/").block_directory() == "/sys/block");
    CHECK(Tree("/a/b//").block_directory() == "/a/b/sys/block");
  }

  TEST_CASE("a directory without a tree has an errno") {
    const auto missing = Tree("/nonexistent").disks();
    REQUIRE_FALSE(missing.has_value());
    CHECK(missing.error().code == ENOENT);
    CHECK(missing.error().what == "No such file or directory");
  }

  TEST_CASE("attributes are the files of queue, its groups and the disk") {
    const FakeTree fake;
    fake.add_disk("d");
    fake.link("d/bdi", "/");
    CHECK(Tree(fake.directory()).attributes("d") ==
          std::vector<std::string>{"async_depth", "disk/ro", "disk/size", "disk/stat",
                                   "iosched/fifo_batch", "iosched/front_merges", "nomerges",
                                   "nr_requests", "scheduler"});
    CHECK(Tree(fake.directory()).attributes("e").empty());
  }

  TEST_CASE("read gives the whole text") {
    const FakeTree fake;
    fake.add_disk("d");
    const std::string large(10000, 'x');
    fake.write("d/large", large);
    const Tree tree(fake.directory());
    CHECK(tree.read("d", "nr_requests").value() == "256\n");
    CHECK(tree.read("d", "iosched/fifo_batch").value() == "16\n");
    CHECK(tree.read("d", "disk/stat").value() == "       1        2\n");
    CHECK(tree.read("d", "disk/mq/0/nr_tags").value() == "128\n");
    CHECK(tree.read("d", "disk/large").value() == large);
    CHECK(tree.read("d", "nothing").error().code == ENOENT);
    CHECK(tree.read("d", "iosched").error().code == EISDIR);
  }

  TEST_CASE("a store is the value and a newline") {
    const FakeTree fake;
    fake.add_disk("d");
    const Tree tree(fake.directory());
    CHECK(tree.store("d", "nr_requests", "64").has_value());
    CHECK(fake.read("d/queue/nr_requests") == "64\n");
    CHECK(tree.store("d", "nr_requests", "").has_value());
    CHECK(fake.read("d/queue/nr_requests") == "\n");
    CHECK(tree.store("d", "nothing", "1").error().code == ENOENT);
    CHECK_FALSE(std::filesystem::exists(fake.block() + "/d/queue/nothing"));
  }

  TEST_CASE("a refused write keeps its errno") {
    const FakeTree fake;
    fake.add_disk("d");
    fake.link("d/queue/nomerges", "/dev/full");
    const auto done = Tree(fake.directory()).store("d", "nomerges", "1");
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().code == ENOSPC);
    CHECK(done.error().what == "No space left on device");
  }

  TEST_CASE("no path leads out of the disk") {
    const FakeTree fake;
    fake.add_disk("d");
    fake.add_disk("e");
    const Tree tree(fake.directory());
    for (const std::string path :
         {"", "/", "/etc/passwd", "..", "../queue/nomerges", "iosched/../nomerges", "./nomerges",
          "iosched//fifo_batch", "nomerges/", "disk/", "disk/../e/ro", "disk//ro"}) {
      CAPTURE(path);
      CHECK(tree.read("d", path).error().code == EINVAL);
      CHECK(tree.store("d", path, "1").error().code == EINVAL);
      CHECK_FALSE(tree.has_attribute("d", path));
    }
    CHECK(tree.read("../block/d", "nomerges").error().code == EINVAL);
    CHECK(fake.read("e/ro") == "0\n");
  }

  TEST_CASE("attributes are files, at any depth, and writable by their mode") {
    const FakeTree fake;
    fake.add_disk("d");
    std::filesystem::permissions(fake.block() + "/d/ro", std::filesystem::perms::owner_read |
                                                             std::filesystem::perms::others_read);
    const Tree tree(fake.directory());
    CHECK(tree.has_attribute("d", "disk/mq/0/nr_tags"));
    CHECK_FALSE(tree.has_attribute("d", "iosched"));
    CHECK(tree.is_writable("d", "nomerges"));
    CHECK_FALSE(tree.is_writable("d", "disk/ro"));
    CHECK_FALSE(tree.is_writable("d", "nothing"));
  }
}
