// SPDX-License-Identifier: Apache-2.0
#include "daemon/elevctl_command.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fake_tree.hpp"

using elevd::daemon::ElevctlContext;
using elevd::daemon::ElevctlOutcome;
using elevd::daemon::expected_values;
using elevd::daemon::kElevctlRefused;
using elevd::daemon::kElevctlUsage;
using elevd::daemon::run_elevctl;
using elevd::daemon::testing::FakeTree;

namespace {

ElevctlOutcome run_with(const ElevctlContext& context, const std::vector<std::string>& words) {
  std::vector<const char*> arguments = {"elevctl"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const ElevctlOutcome outcome =
      run_elevctl(static_cast<int>(arguments.size()), arguments.data(), context);
  CHECK(outcome.error.find('\n') == std::string::npos);
  CHECK(outcome.error.empty() == (outcome.status == 0));
  return outcome;
}

ElevctlContext context_of(const FakeTree& fake) {
  return {.is_root = true,
          .runtime_directory = "",
          .elevd_directory = fake.directory(),
          .version = "9.8.7"};
}

ElevctlOutcome run(const FakeTree& fake, const std::vector<std::string>& words) {
  return run_with(context_of(fake), words);
}

}  // namespace

TEST_SUITE("elevctl") {
  TEST_CASE("list shows one aligned line a disk") {
    const FakeTree fake;
    fake.add_disk("fast");
    fake.add_disk("b");
    fake.write("b/queue/scheduler", "[none] mq-deadline \n");
    fake.write("b/queue/nr_requests", "128\n");
    std::filesystem::remove(fake.block() + "/b/queue/async_depth");
    fake.write("b/size", "3145728\n");
    fake.write("b/ro", "1\n");
    const auto outcome = run(fake, {"list"});
    CHECK(outcome.status == 0);
    CHECK(outcome.output ==
          "DISK  SIZE  SCHEDULER    NR_REQUESTS  ASYNC_DEPTH  ACCESS\n"
          "b     1.5G  none         128          -            ro\n"
          "fast  256M  mq-deadline  256          192          rw\n");
  }

  TEST_CASE("list leaves async_depth out when no disk has it") {
    const FakeTree fake;
    fake.add_disk("d");
    std::filesystem::remove(fake.block() + "/d/queue/async_depth");
    CHECK(run(fake, {"list"}).output ==
          "DISK  SIZE  SCHEDULER    NR_REQUESTS  ACCESS\n"
          "d     256M  mq-deadline  256          rw\n");
  }

  TEST_CASE("list shows what it cannot read as absent") {
    const FakeTree fake;
    fake.write("bare/queue/nomerges", "0\n");
    fake.write("odd/size", "many\n");
    CHECK(run(fake, {"list"}).output ==
          "DISK  SIZE  SCHEDULER  NR_REQUESTS  ACCESS\n"
          "bare  -     -          -            -\n"
          "odd   -     -          -            -\n");
  }

  TEST_CASE("list of no disks is the header") {
    const FakeTree fake;
    CHECK(run(fake, {"list"}).output == "DISK  SIZE  SCHEDULER  NR_REQUESTS  ACCESS\n");
  }

  TEST_CASE("get of one attribute is its text alone") {
    const FakeTree fake;
    fake.add_disk("d");
    CHECK(run(fake, {"get", "d", "nr_requests"}).output == "256\n");
    CHECK(run(fake, {"get", "d", "scheduler"}).output == "none [mq-deadline] kyber bfq \n");
    CHECK(run(fake, {"get", "d", "disk/stat"}).output == "       1        2\n");
    fake.write("d/queue/nomerges", "");
    CHECK(run(fake, {"get", "d", "nomerges"}).output == "\n");
  }

  TEST_CASE("get of several attributes names them") {
    const FakeTree fake;
    fake.add_disk("d");
    CHECK(run(fake, {"get", "d", "nr_requests", "iosched/fifo_batch", "disk/ro"}).output ==
          "nr_requests=256\niosched/fifo_batch=16\ndisk/ro=0\n");
  }

  TEST_CASE("get prints nothing when one attribute is missing") {
    const FakeTree fake;
    fake.add_disk("d");
    const auto outcome = run(fake, {"get", "d", "nr_requests", "nr_request"});
    CHECK(outcome.status == kElevctlUsage);
    CHECK(outcome.output.empty());
    CHECK(outcome.error == "d: 'nr_request': no such attribute, did you mean nr_requests?");
  }

  TEST_CASE("set stores every value in order") {
    const FakeTree fake;
    fake.add_disk("d");
    const auto outcome =
        run(fake, {"set", "d", "nr_requests=64", "iosched/fifo_batch=2", "nr_requests=32"});
    CHECK(outcome.status == 0);
    CHECK(outcome.output.empty());
    CHECK(fake.read("d/queue/nr_requests") == "32\n");
    CHECK(fake.read("d/queue/iosched/fifo_batch") == "2\n");
  }

  TEST_CASE("a value may hold blanks and equals signs and may be empty or negative") {
    const FakeTree fake;
    fake.add_disk("d");
    fake.write("d/queue/write_cache", "write back\n");
    CHECK(run(fake, {"set", "d", "write_cache=write through", "nomerges=a=b",
                     "iosched/fifo_batch=-1", "nr_requests="})
              .status == 0);
    CHECK(fake.read("d/queue/write_cache") == "write through\n");
    CHECK(fake.read("d/queue/nomerges") == "a=b\n");
    CHECK(fake.read("d/queue/iosched/fifo_batch") == "-1\n");
    CHECK(fake.read("d/queue/nr_requests") == "\n");
  }

  TEST_CASE("set stops at the first refusal and says what is expected") {
    const FakeTree fake;
    fake.add_disk("d");
    // A file of the kernel that refuses words, as an attribute does.
    fake.link("d/queue/nr_requests", "/proc/self/oom_score_adj");
    const auto outcome =
        run(fake, {"set", "d", "iosched/fifo_batch=2", "nr_requests=many", "nomerges=2"});
    CHECK(outcome.status == kElevctlRefused);
    CHECK(outcome.error ==
          "d: nr_requests=many: Invalid argument, expected a number, at most 2048 with a "
          "scheduler, else at most the hardware depth");
    CHECK(fake.read("d/queue/iosched/fifo_batch") == "2\n");
    CHECK(fake.read("d/queue/nomerges") == "0\n");
  }

  TEST_CASE("other refusals are the errno in words") {
    const FakeTree fake;
    fake.add_disk("d");
    fake.link("d/queue/nomerges", "/dev/full");
    CHECK(run(fake, {"set", "d", "nomerges=1"}).error == "d: nomerges=1: No space left on device");
    fake.link("d/queue/odd", "/proc/self/oom_score_adj");
    CHECK(run(fake, {"set", "d", "odd=x\ny"}).error == "d: odd=x\\x0ay: Invalid argument");
    fake.link("d/deep/odd", "/proc/self/oom_score_adj");
    CHECK(run(fake, {"set", "d", "disk/deep/odd=x"}).error ==
          "d: disk/deep/odd=x: Invalid argument");
    fake.link("d/queue/unreadable", "/proc/self/mem");
    const auto unreadable = run(fake, {"get", "d", "unreadable"});
    CHECK(unreadable.status == kElevctlRefused);
    CHECK(unreadable.error == "d: unreadable: Input/output error");
  }

  TEST_CASE("what an attribute takes is known for the common ones") {
    CHECK(expected_values("scheduler", "none [mq-deadline] kyber bfq \n") ==
          "expected one of none, mq-deadline, kyber, bfq");
    CHECK(expected_values("scheduler", "[none] \n") == "expected one of none");
    CHECK(expected_values("scheduler", "").empty());
    CHECK(expected_values("write_cache", "") == "expected write back or write through");
    CHECK(expected_values("add_random", "0\n").empty());
  }

  TEST_CASE("wrong words, disks and attributes have status 2 and a hint") {
    const FakeTree fake;
    fake.add_disk("fast");
    struct Row {
      std::vector<std::string> words;
      std::string error;
    };
    const std::string block = fake.block();
    for (const Row& row : std::vector<Row>{
             {{}, "no command, expected one of list, get, set, simulate"},
             {{"lst"}, "'lst': unknown command, did you mean list?"},
             {{"zebra"}, "'zebra': unknown command, expected one of list, get, set, simulate"},
             {{"-x"}, "'-x': unknown option, expected -d DIR or --version"},
             {{"list", "-x"}, "'-x': unknown option, expected -d DIR or --version"},
             {{"list", "fast"}, "'fast': unexpected argument"},
             {{"list", "get"}, "'get': unexpected argument"},
             {{"get"}, "get: DISK is required"},
             {{"get", "fast"}, "get: ATTR is required"},
             {{"set", "fast"}, "set: ATTR=VALUE is required"},
             {{"-d"}, "-d: 1 required DIR missing"},
             {{"set", "fast", "nomerges"}, "'nomerges': no assignment, expected ATTR=VALUE"},
             {{"set", "fast", "=1"}, "'=1': no assignment, expected ATTR=VALUE"},
             {{"get", "fats", "ro"}, "'fats': no such disk in " + block + ", did you mean fast?"},
             {{"set", "zebra", "nomerges=1"},
              "'zebra': no such disk in " + block + ", expected one of fast"},
             {{"get", "../block/fast", "ro"},
              "'../block/fast': no such disk in " + block + ", expected one of fast"},
             {{"get", "fast", "zebra"},
              "fast: 'zebra': no such attribute, see " + block + "/fast/queue"},
             {{"get", "fast", "fifo_batch"},
              "fast: 'fifo_batch': no such attribute, did you mean iosched/fifo_batch?"},
             {{"get", "fast", "stat"}, "fast: 'stat': no such attribute, did you mean disk/stat?"},
             {{"get", "fast", "../size"},
              "fast: '../size': no such attribute, see " + block + "/fast/queue"},
             {{"get", "fast", "iosched"},
              "fast: 'iosched': a directory, expected one of iosched/fifo_batch, "
              "iosched/front_merges"},
             {{"set", "fast", "nomerge=1"},
              "fast: 'nomerge': no such attribute, did you mean nomerges?"},
         }) {
      CAPTURE(row.error);
      const auto outcome = run(fake, row.words);
      CHECK(outcome.status == kElevctlUsage);
      CHECK(outcome.output.empty());
      CHECK(outcome.error == row.error);
    }
  }

  TEST_CASE("a wrong assignment stores nothing, not even those before it") {
    const FakeTree fake;
    fake.add_disk("d");
    CHECK(run(fake, {"set", "d", "nomerges=2", "wrong"}).status == kElevctlUsage);
    CHECK(fake.read("d/queue/nomerges") == "0\n");
  }

  TEST_CASE("disks may have the names of commands") {
    const FakeTree fake;
    fake.add_disk("list");
    fake.add_disk("set");
    CHECK(run(fake, {"get", "list", "nr_requests"}).output == "256\n");
    CHECK(run(fake, {"set", "set", "nr_requests=8"}).status == 0);
    CHECK(fake.read("set/queue/nr_requests") == "8\n");
  }

  TEST_CASE("the directory comes from -d, else the environment, else the default") {
    const FakeTree fake;
    const FakeTree other;
    other.add_disk("d");
    for (const auto& words :
         {std::vector<std::string>{"-d", other.directory(), "get", "d", "nomerges"},
          std::vector<std::string>{"get", "-d", other.directory(), "d", "nomerges"},
          std::vector<std::string>{"get", "d", "nomerges", "-d", other.directory() + "/"}}) {
      CHECK(run(fake, words).output == "0\n");
    }
    std::filesystem::create_directories(other.directory() + "/elevd");
    std::filesystem::rename(other.directory() + "/sys", other.directory() + "/elevd/sys");
    CHECK(run_with({.is_root = false,
                    .runtime_directory = other.directory(),
                    .elevd_directory = "",
                    .version = ""},
                   {"get", "d", "nomerges"})
              .output == "0\n");
    const auto nowhere =
        run_with({.is_root = false, .runtime_directory = "", .elevd_directory = "", .version = ""},
                 {"list"});
    CHECK(nowhere.status == kElevctlUsage);
    CHECK(nowhere.error == "no DIR: give -d DIR or set $ELEVD_DIR or $XDG_RUNTIME_DIR");
  }

  TEST_CASE("a directory without a tree is named") {
    const FakeTree fake;
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"-d", "/nonexistent", "list"},
          std::vector<std::string>{"-d", "/nonexistent", "get", "d", "ro"},
          std::vector<std::string>{"-d", "/nonexistent", "set", "d", "ro=1"}}) {
      const auto outcome = run(fake, words);
      CHECK(outcome.status == kElevctlUsage);
      CHECK(outcome.error ==
            "/nonexistent/sys/block: No such file or directory, expected a directory served by "
            "elevd (give it with -d DIR)");
    }
  }

  TEST_CASE("help and version are printed") {
    const FakeTree fake;
    CHECK(run(fake, {"--version"}).output == "elevctl 9.8.7\n");
    const auto help = run(fake, {"--help"});
    CHECK(help.status == 0);
    for (const std::string_view word : {"list", "get", "set", "-d DIR", "--version"}) {
      CAPTURE(word);
      CHECK(help.output.find(word) != std::string::npos);
    }
    CHECK(run(fake, {"set", "--help"}).output.find("ATTR=VALUE") != std::string::npos);
  }
}
