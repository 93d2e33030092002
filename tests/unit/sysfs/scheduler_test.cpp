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
    const std::string list = format_schedulers(available_schedulers(), "none");
    CHECK(list.starts_with("[none] mq-deadline "));
    CHECK(bench.show("queue/scheduler") == list);
    CHECK(bench.store("queue/scheduler", "none\n") == 0);
    CHECK(bench.store("queue/scheduler", "cfq\n") == EINVAL);
    CHECK(bench.show("queue/scheduler") == list);
  }

  TEST_CASE("what there is stands in the order of the kernel") {
    auto kernel = std::begin(kKernelNames);
    for (const SchedulerType& type : available_schedulers()) {
      CAPTURE(type.name);
      while (kernel != std::end(kKernelNames) && kernel->name != type.name) ++kernel;
      CHECK(kernel != std::end(kKernelNames));
    }
  }

  TEST_CASE("the default is mq-deadline, and there is one") {
    CHECK(default_scheduler() == "mq-deadline");
    CHECK(parse_scheduler(default_scheduler(), available_schedulers()).has_value());
  }

  TEST_CASE("a switch shows the files of the new scheduler and takes those of the old one away") {
    const Bench bench;
    CHECK(bench.of_disk("queue/iosched") == 0);
    REQUIRE(bench.store("queue/scheduler", "deadline\n") == 0);
    CHECK(bench.show("queue/scheduler").starts_with("none [mq-deadline] "));
    CHECK(bench.show("queue/nr_requests") == "256\n");
    CHECK(bench.show("queue/async_depth") == "256\n");
    const Inode old = bench.of_disk("queue/iosched/fifo_batch");
    REQUIRE(old != 0);
    REQUIRE(bench.store("queue/iosched/fifo_batch", "2") == 0);
    REQUIRE(bench.store("queue/nr_requests", "77") == 0);
    SUBCASE("the same one again keeps everything, its open files too") {
      REQUIRE(bench.store("queue/scheduler", "mq-deadline") == 0);
      CHECK(bench.of_disk("queue/iosched/fifo_batch") == old);
      CHECK(bench.show("queue/iosched/fifo_batch") == "2\n");
      CHECK(bench.show("queue/nr_requests") == "77\n");
    }
    SUBCASE("another one and back has the defaults, in other files") {
      REQUIRE(bench.store("queue/scheduler", "none") == 0);
      CHECK(bench.of_disk("queue/iosched") == 0);
      CHECK(bench.inode("kernel/debug/block/disk0/sched") == 0);
      CHECK(bench.show("queue/nr_requests") == "128\n");
      CHECK(bench.tree.show(old).error() == ENODEV);
      REQUIRE(bench.store("queue/scheduler", "mq-deadline") == 0);
      CHECK(bench.of_disk("queue/iosched/fifo_batch") != old);
      CHECK(bench.tree.show(old).error() == ENODEV);
      CHECK(bench.show("queue/iosched/fifo_batch") == "16\n");
      CHECK(bench.show("queue/nr_requests") == "256\n");
    }
  }

  TEST_CASE("tunables of another scheduler than there is are ENODEV, read and written") {
    const Bench bench;
    REQUIRE(bench.store("queue/scheduler", "mq-deadline") == 0);
    const Inode file = bench.of_disk("queue/iosched/read_expire");
    bench.disk.queue->set_elevator(nullptr);  // switched, and not published yet
    CHECK(bench.tree.show(file).error() == ENODEV);
    const Outcome outcome = bench.tree.store(file, "1");
    REQUIRE(std::holds_alternative<Refused>(outcome));
    CHECK(std::get<Refused>(outcome).error == ENODEV);
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
