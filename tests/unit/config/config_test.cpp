// SPDX-License-Identifier: Apache-2.0
#include "config/config.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using elevd::config::Attribute;
using elevd::config::default_directory;
using elevd::config::DiskConfig;
using elevd::config::ordered_attributes;
using elevd::config::Transport;
using elevd::config::transport_name;

namespace {

std::vector<std::string> paths(const std::vector<Attribute>& attributes) {
  std::vector<std::string> result;
  for (const Attribute& attribute : attributes) result.push_back(attribute.path);
  return result;
}

}  // namespace

TEST_SUITE("config") {
  TEST_CASE("scheduler and depths are stored before the rest, which keeps its order") {
    DiskConfig disk;
    disk.attributes = {{"iosched/fifo_batch", "2", ""},
                       {"async_depth", "32", ""},
                       {"nomerges", "1", ""},
                       {"nr_requests", "64", ""},
                       {"add_random", "0", ""}};
    disk.scheduler = "mq-deadline";
    disk.scheduler_origin = "--disk fast";
    const auto ordered = ordered_attributes(disk);
    CHECK(paths(ordered) == std::vector<std::string>{"scheduler", "nr_requests", "async_depth",
                                                     "iosched/fifo_batch", "nomerges",
                                                     "add_random"});
    CHECK(ordered[0].text == "mq-deadline");
    CHECK(ordered[0].origin == "--disk fast");
    CHECK(ordered[1].text == "64");
  }

  TEST_CASE("nothing given is nothing stored") { CHECK(ordered_attributes({}).empty()); }

  TEST_CASE("without a scheduler none is stored") {
    DiskConfig disk;
    disk.attributes = {{"nomerges", "1", ""}};
    CHECK(paths(ordered_attributes(disk)) == std::vector<std::string>{"nomerges"});
  }

  TEST_CASE("the default directory depends on who asks") {
    CHECK(default_directory(true, "/run/user/0") == "/run/elevd");
    CHECK(default_directory(false, "/run/user/7") == "/run/user/7/elevd");
    CHECK(default_directory(false, "/run/user/7/") == "/run/user/7/elevd");
    CHECK(default_directory(false, "").empty());
  }

  TEST_CASE("transports have the names of the command line") {
    CHECK(transport_name(Transport::automatic) == "auto");
    CHECK(transport_name(Transport::uring) == "uring");
    CHECK(transport_name(Transport::dev) == "dev");
  }
}
