// SPDX-License-Identifier: Apache-2.0
#include "daemon/group_finder.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <unistd.h>

#include "daemon/issuer_cache.hpp"

namespace elevd::daemon {
namespace {

using sched::GroupId;
using sched::Groups;
using sched::Instant;

std::optional<std::string> lines_of_test(std::uint32_t id) {
  if (id == 404) return std::nullopt;
  return "0::/group" + std::to_string(id) + "\n";
}

bool readable(int descriptor) {
  pollfd watched{descriptor, POLLIN, 0};
  return poll(&watched, 1, 0) == 1;
}

TEST_SUITE("group finder") {
  TEST_CASE("the group is that of blkio, else that of version 2") {
    CHECK(group_path("0::/a/b\n") == "/a/b");
    CHECK(group_path("8:pids:/p\n7:blkio:/x\n0::/y\n") == "/x");
    CHECK(group_path("0::/y\n7:memory,blkio:/x\n") == "/x");
    CHECK(group_path("7:blkio,memory:/x\n") == "/x");
    CHECK(group_path("7:cpu,blkio,memory:/x:y\n") == "/x:y");
    CHECK(group_path("7:notblkio:/x\n0::/\n") == "/");
    CHECK(group_path("8:pids:/p\n") == "/");
    CHECK(group_path("") == "/");
    CHECK(group_path("nonsense\n0::/after") == "/after");
  }

  TEST_CASE("the kernel tells the group of this thread, and none of a thread that is gone") {
    const auto lines = read_group_lines(static_cast<std::uint32_t>(gettid()));
    REQUIRE(lines.has_value());
    CHECK(group_path(*lines).starts_with("/"));
    CHECK(!read_group_lines(0x7fffffff).has_value());
  }

  TEST_CASE("a worker has the root until the control thread has looked") {
    Groups groups;
    GroupFinder finder(groups, lines_of_test);
    IssuerCache cache([](std::uint32_t) { return sched::IoPriority{}; }, &finder);
    CHECK(!readable(finder.descriptor()));
    CHECK(cache.group(7, Instant{0}) == sched::kRootGroup);
    CHECK(readable(finder.descriptor()));
    CHECK(cache.group(7, Instant{1}) == sched::kRootGroup);
    finder.find();
    CHECK(!readable(finder.descriptor()));
    const GroupId seven = groups.id("/group7");
    CHECK(seven != sched::kRootGroup);
    CHECK(cache.group(7, Instant{2}) == seven);
    CHECK(!readable(finder.descriptor()));
    // After a second it is asked for again; what was known holds until there is an answer.
    CHECK(cache.group(7, Instant{1'000'000'000}) == seven);
    CHECK(readable(finder.descriptor()));
  }

  TEST_CASE("two threads of one place do not get each other's group") {
    Groups groups;
    GroupFinder finder(groups, lines_of_test);
    IssuerCache cache([](std::uint32_t) { return sched::IoPriority{}; }, &finder);
    static_cast<void>(cache.group(7, Instant{0}));
    static_cast<void>(cache.group(7 + 256, Instant{0}));
    finder.find();
    CHECK(cache.group(7 + 256, Instant{0}) == groups.id("/group263"));
    CHECK(cache.group(7, Instant{0}) == sched::kRootGroup);
    finder.find();
    CHECK(cache.group(7, Instant{0}) == groups.id("/group7"));
  }

  TEST_CASE("no answer for who is gone or unknown; nobody is asked about the latter") {
    Groups groups;
    GroupFinder finder(groups, lines_of_test);
    IssuerCache cache([](std::uint32_t) { return sched::IoPriority{}; }, &finder);
    CHECK(cache.group(0, Instant{0}) == sched::kRootGroup);
    CHECK(!readable(finder.descriptor()));
    CHECK(cache.group(404, Instant{0}) == sched::kRootGroup);
    finder.find();
    CHECK(cache.group(404, Instant{0}) == sched::kRootGroup);
  }

  TEST_CASE("more questions than there is room for are asked later") {
    Groups groups;
    GroupFinder finder(groups, lines_of_test);
    IssuerCache cache([](std::uint32_t) { return sched::IoPriority{}; }, &finder);
    for (std::uint32_t id = 1; id <= 200; ++id) static_cast<void>(cache.group(id, Instant{0}));
    finder.find();
    CHECK(cache.group(1, Instant{0}) == groups.id("/group1"));
    CHECK(cache.group(200, Instant{0}) == sched::kRootGroup);
    CHECK(readable(finder.descriptor()));
    finder.find();
    CHECK(cache.group(200, Instant{0}) == groups.id("/group200"));
  }
}

}  // namespace
}  // namespace elevd::daemon
