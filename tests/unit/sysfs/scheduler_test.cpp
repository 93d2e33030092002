// SPDX-License-Identifier: Apache-2.0
#include "sysfs/scheduler.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <ostream>
#include <string>

#include "bench.hpp"
#include "sysfs/file_rules.hpp"

namespace elevd::sysfs {
namespace {

using namespace std::string_view_literals;

/// The names of the kernel, so that its table can be tried whatever this build has.
constexpr SchedulerType kKernelNames[] = {
    {"none", "", nullptr},
    {"mq-deadline", "deadline", nullptr},
    {"kyber", "", nullptr},
    {"bfq", "", nullptr},
};

/// What the file makes of a write: the name, or "EINVAL".
std::string_view named(std::string_view written) {
  const auto type = parse_scheduler(store_input(written).text, kKernelNames);
  return type ? (*type)->name : "EINVAL"sv;
}

struct NameRow {
  std::string_view written;
  std::string_view expected;
};

TEST_SUITE("scheduler") {
  TEST_CASE("names are taken by the table of docs/spec/elevator-switch.md 1.1") {
    for (const NameRow& row : {
             NameRow{"mq-deadline", "mq-deadline"},
             {"deadline", "mq-deadline"},
             {"kyber", "kyber"},
             {"bfq", "bfq"},
             {"none", "none"},
             {"none\n", "none"},
             {"none2", "none"},
             {"nonexist", "none"},
             {"none mq-deadline", "none"},
             {" mq-deadline \n", "mq-deadline"},
             {"kyber\n\n", "kyber"},
             {"    mq-deadline", "mq-deadline"},
             {"     mq-deadline", "EINVAL"},
             {"mq-deadline     xxxxx", "mq-deadline"},
             {"kyber           bfq", "kyber"},
             {"mq-deadline   x", "EINVAL"},
             {"mq-deadline1", "EINVAL"},
             {"deadline x", "EINVAL"},
             {"noop", "EINVAL"},
             {"cfq", "EINVAL"},
             {"non", "EINVAL"},
             {"MQ-DEADLINE", "EINVAL"},
             {"[none]", "EINVAL"},
             {"bfq-mq", "EINVAL"},
             {"\n", "EINVAL"},
             {"kyber\0junk"sv, "kyber"},
         }) {
      CAPTURE(row.written);
      CHECK(named(row.written) == row.expected);
    }
  }

  TEST_CASE("names are taken by the table of docs/spec/sysfs.md 4") {
    for (const NameRow& row : {
             NameRow{"mq-deadline\n", "mq-deadline"},
             {"\tkyber\t\n", "kyber"},
             {"mq-deadline     ", "mq-deadline"},
             {"nonesuch", "none"},
             {"none-x", "none"},
             {"abc", "EINVAL"},
             {"[kyber]", "EINVAL"},
             {"mq-deadlinexyz", "EINVAL"},
             {"mq-deadline kyber", "EINVAL"},
             {"", "EINVAL"},
             {" ", "EINVAL"},
             {"                kyber", "EINVAL"},
             {"kyber               x", "kyber"},
         }) {
      CAPTURE(row.written);
      CHECK(named(row.written) == row.expected);
    }
  }

  TEST_CASE("the list has a blank after every name and brackets around the active one") {
    CHECK(format_schedulers(kKernelNames, "mq-deadline") == "none [mq-deadline] kyber bfq \n");
    CHECK(format_schedulers(kKernelNames, "none") == "[none] mq-deadline kyber bfq \n");
  }

  TEST_CASE("the file lists what there is and refuses the rest") {
    const Bench bench;
    CHECK(bench.show("queue/scheduler") == "[none] \n");
    CHECK(bench.store("queue/scheduler", "none\n") == 0);
    CHECK(bench.store("queue/scheduler", "cfq\n") == EINVAL);
    CHECK(bench.show("queue/scheduler") == "[none] \n");
  }

  TEST_CASE("none on none is a change for a frozen queue, and brings the hardware depth back") {
    const Bench bench;
    REQUIRE(bench.store("queue/nr_requests", "50") == 0);
    const Outcome outcome = bench.outcome("queue/scheduler", "none");
    const auto* change = std::get_if<Change>(&outcome);
    REQUIRE(change != nullptr);
    CHECK(change->kind == ChangeKind::scheduler);
    CHECK(change->disk == "disk0");
    CHECK(bench.show("queue/nr_requests") == "50\n");
    CHECK(change->apply() == 0);
    CHECK(bench.show("queue/nr_requests") == "128\n");
  }
}

}  // namespace
}  // namespace elevd::sysfs
