// SPDX-License-Identifier: Apache-2.0
#include "config/command_line.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace config = elevd::config;
using namespace std::chrono_literals;

namespace {

constexpr std::array<std::string_view, 5> kSomeAttributes = {
    "scheduler", "nr_requests", "async_depth", "nomerges", "iosched/fifo_batch"};

config::CommandLineContext root_context() {
  return {
      .is_root = true, .runtime_directory = "", .version = "9.8.7", .attributes = kSomeAttributes};
}

config::CommandLine parse(const std::vector<const char*>& words,
                          const config::CommandLineContext& context = root_context()) {
  std::vector<const char*> arguments = {"elevd"};
  for (const char* const word : words) arguments.push_back(word);
  return config::parse_command_line(static_cast<int>(arguments.size()), arguments.data(), context);
}

config::DaemonConfig good(const std::vector<const char*>& words,
                          const config::CommandLineContext& context = root_context()) {
  config::CommandLine result = parse(words, context);
  const auto* answer = std::get_if<config::Answer>(&result);
  REQUIRE_MESSAGE(answer == nullptr, answer->text);
  return std::get<config::DaemonConfig>(result);
}

// The message of a refusal, which must be one line with the status of misuse.
std::string refused(const std::vector<const char*>& words,
                    const config::CommandLineContext& context = root_context()) {
  config::CommandLine result = parse(words, context);
  const auto* answer = std::get_if<config::Answer>(&result);
  if (answer == nullptr) return "(accepted)";
  CHECK(answer->status == config::kExitUsage);
  CHECK(answer->text.find('\n') == std::string::npos);
  return answer->text;
}

// A file that lives as long as the test case.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view text) {
    std::string pattern = std::filesystem::temp_directory_path() / "elevd-config-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    directory_ = pattern;
    path_ = directory_ / "e.toml";
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove_all(directory_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  std::filesystem::path directory_;
  std::filesystem::path path_;
};

}  // namespace

TEST_SUITE("command line") {
  TEST_CASE("one disk is enough and the rest has defaults") {
    const auto result = good({"--disk", "fast=ram:64M"});
    CHECK(result.directory == "/run/elevd");
    CHECK(result.transport == config::Transport::automatic);
    CHECK(result.workers == 0);
    CHECK(result.stop_timeout == 30s);
    CHECK(result.busy_poll == 0s);
    CHECK_FALSE(result.daemonize);
    CHECK_FALSE(result.check_only);
    REQUIRE(result.disks.size() == 1);
    CHECK(result.disks[0].name == "fast");
    CHECK(result.disks[0].origin == "--disk fast");
    CHECK(result.disks[0].backing.bytes == 64 << 20);
  }

  TEST_CASE("every option is read, before and after DIR") {
    const auto result =
        good({"--disk", "a=ram:1M", "/srv/e", "--disk=b=null:1G", "--transport", "dev", "--workers",
              "2", "--stop-timeout=2m", "--busy-poll", "20us", "--daemonize", "--check"});
    CHECK(result.directory == "/srv/e");
    CHECK(result.transport == config::Transport::dev);
    CHECK(result.workers == 2);
    CHECK(result.stop_timeout == 2min);
    CHECK(result.busy_poll == 20us);
    CHECK(result.daemonize);
    CHECK(result.check_only);
    REQUIRE(result.disks.size() == 2);
    CHECK(result.disks[1].name == "b");
  }

  TEST_CASE("every key of a disk is read") {
    const auto result =
        good({"--disk",
              "d=/srv/d.img,scheduler=mq-deadline,queue_depth=32,logical_block_size=4K,read_only,"
              "buffer_memory=64M,model=seek,model_sequential=100us,model_random=2ms,"
              "iosched/fifo_batch=2,nr_requests=64"});
    const config::DiskConfig& disk = result.disks.at(0);
    CHECK(disk.backing.kind == config::BackingSpec::Kind::path);
    CHECK(disk.backing.path == "/srv/d.img");
    CHECK(disk.scheduler == "mq-deadline");
    CHECK(disk.scheduler_origin == "--disk d");
    CHECK(disk.queue_depth == 32);
    CHECK(disk.logical_block_size == 4096);
    CHECK(disk.read_only);
    CHECK(disk.buffer_memory == 64 << 20);
    CHECK(disk.model.kind == config::ModelSpec::Kind::seek);
    CHECK(disk.model.sequential == 100us);
    CHECK(disk.model.random == 2ms);
    REQUIRE(disk.attributes.size() == 2);
    CHECK(disk.attributes[0].path == "iosched/fifo_batch");
    CHECK(disk.attributes[0].text == "2");
    CHECK(disk.attributes[0].origin == "--disk d");
    CHECK(disk.attributes[1].path == "nr_requests");
  }

  TEST_CASE("a value may hold an equals sign, a path too") {
    CHECK(good({"--disk", "d=/srv/a=b"}).disks.at(0).backing.path == "/srv/a=b");
  }

  TEST_CASE("read_only takes the usual words") {
    for (const std::string word : {"1", "true", "yes", "on"}) {
      CAPTURE(word);
      CHECK(good({"--disk", ("d=/x,read_only=" + word).c_str()}).disks.at(0).read_only);
    }
    for (const std::string word : {"0", "false", "no", "off"}) {
      CAPTURE(word);
      CHECK_FALSE(good({"--disk", ("d=/x,read_only=" + word).c_str()}).disks.at(0).read_only);
    }
  }

  TEST_CASE("help and version are printed") {
    const auto version = std::get<config::Answer>(parse({"--version"}));
    CHECK(version.status == 0);
    CHECK(version.text == "elevd 9.8.7\n");
    const auto help = std::get<config::Answer>(parse({"--help"}));
    CHECK(help.status == 0);
    for (const std::string_view option :
         {"--disk NAME=BACKING", "--config FILE", "--transport", "--workers", "--stop-timeout",
          "--daemonize", "--check", "--version", "DIR"}) {
      CAPTURE(option);
      CHECK(help.text.find(option) != std::string::npos);
    }
    CHECK(help.text.ends_with("\n"));
  }

  TEST_CASE("the default directory of a user is in the runtime directory") {
    auto context = root_context();
    context.is_root = false;
    context.runtime_directory = "/run/user/7";
    CHECK(good({"--disk", "a=ram:1M"}, context).directory == "/run/user/7/elevd");
    context.runtime_directory.clear();
    CHECK(refused({"--disk", "a=ram:1M"}, context) ==
          "no DIR and no $XDG_RUNTIME_DIR: give the directory DIR");
    CHECK(good({"--check", "--disk", "a=ram:1M"}, context).directory.empty());
    CHECK(good({"d", "--disk", "a=ram:1M"}, context).directory == "d");
  }

  TEST_CASE("the command line wins over the file, disks of both are kept") {
    const TemporaryFile file(
        "transport = \"uring\"\ndir = \"/file\"\nworkers = 5\nstop_timeout = 7\nbusy_poll = 1\n"
        "[disk.z]\nbacking = \"ram:1M\"\n");
    const auto alone = good({"--config", file.path()});
    CHECK(alone.directory == "/file");
    CHECK(alone.transport == config::Transport::uring);
    CHECK(alone.workers == 5);
    CHECK(alone.stop_timeout == 7s);
    CHECK(alone.busy_poll == 1s);
    const auto both = good({"/line", "--config", file.path(), "--transport", "dev", "--workers",
                            "2", "--stop-timeout", "1", "--disk", "a=ram:2M"});
    CHECK(both.directory == "/line");
    CHECK(both.transport == config::Transport::dev);
    CHECK(both.workers == 2);
    CHECK(both.stop_timeout == 1s);
    REQUIRE(both.disks.size() == 2);
    CHECK(both.disks[0].name == "z");
    CHECK(both.disks[0].origin == std::string(file.path()) + ":6");
    CHECK(both.disks[1].name == "a");
  }

  TEST_CASE("a name twice is an error that names both places") {
    const TemporaryFile file("[disk.a]\nbacking = \"ram:1M\"\n");
    CHECK(refused({"--config", file.path(), "--disk", "a=ram:1M"}) ==
          "--disk a: the name is taken by " + std::string(file.path()) +
              ":1, expected another name");
    CHECK(refused({"--disk", "a=ram:1M", "--disk", "a=ram:2M"}) ==
          "--disk a: the name is taken by --disk a, expected another name");
  }

  TEST_CASE("errors of the file come out as they are") {
    const TemporaryFile file("wrokers = 1\n");
    CHECK(refused({"--config", file.path()}) ==
          std::string(file.path()) + ":1: wrokers: unknown key, did you mean workers?");
    CHECK(refused({"--config", "/nonexistent/e.toml"}) ==
          "/nonexistent/e.toml: No such file or directory");
    const TemporaryFile empty("");
    CHECK(refused({"--config", empty.path()}) ==
          std::string(empty.path()) + ": no disk, expected a table [disk.NAME]");
  }

  TEST_CASE("wrong words of the command line are refused in one line") {
    struct Row {
      std::vector<const char*> words;
      std::string_view error;
    };
    for (const Row& row : {
             Row{{}, "no disk: give --disk NAME=BACKING or --config FILE"},
             {{"--check"}, "no disk: give --disk NAME=BACKING or --config FILE"},
             {{"--disks", "a=ram:1M"}, "'--disks': unknown option, did you mean --disk?"},
             {{"--worker=2"}, "'--worker': unknown option, did you mean --workers?"},
             {{"-x"},
              "'-x': unknown option, expected one of --disk, --config, --transport, --workers, "
              "--stop-timeout, --busy-poll, --daemonize, --check, --version, --help"},
             {{"a", "b"}, "'b': unexpected argument, expected one DIR and options"},
             {{"", "--disk", "a=ram:1M"}, "DIR: it is empty, expected a path"},
             {{"--disk"}, "--disk: 1 required NAME=BACKING[,key=value...] missing"},
             {{"--workers", "2", "--workers", "3"}, "--workers: given twice, expected once"},
             {{"--workers", "0", "--disk", "a=ram:1M"},
              "--workers: '0' is not valid, expected a whole number from 1 to 64"},
             {{"--workers", "65", "--disk", "a=ram:1M"},
              "--workers: '65' is not valid, expected a whole number from 1 to 64"},
             {{"--transport", "tcp", "--disk", "a=ram:1M"},
              "--transport: 'tcp' is not a transport, expected auto, uring or dev"},
             {{"--stop-timeout", "soon", "--disk", "a=ram:1M"},
              "--stop-timeout: 'soon' is not a duration, expected a number with ns, us, ms, s, m "
              "or h (without one: seconds)"},
             {{"--stop-timeout", "25h", "--disk", "a=ram:1M"},
              "--stop-timeout: '25h' is too long, expected at most 24h"},
         }) {
      CAPTURE(row.error);
      CHECK(refused(row.words) == row.error);
    }
  }

  TEST_CASE("wrong disks are refused with disk, key and what is expected") {
    struct Row {
      const char* disk;
      std::string_view error;
    };
    constexpr std::string_view kNameRule =
        "is not a disk name, expected 1 to 31 of a-z, 0-9, '_', '.' and '-', a letter or digit "
        "first";
    for (const Row& row : {
             Row{"fast", "--disk: 'fast' has no '=', expected NAME=BACKING[,key=value...]"},
             {"d=",
              "--disk d: backing: '' is not a backing, expected a path, ram:SIZE or "
              "null:SIZE"},
             {"d=ram:64X",
              "--disk d: backing: '64X' is not a size, expected a whole number of "
              "bytes or one with K, M, G or T (powers of 1024)"},
             {"d=ram:0",
              "--disk d: backing: 'ram:0' has an impossible size, expected 1 to "
              "9223372036854775807 bytes"},
             {"d=null:511",
              "--disk d: backing: 511 bytes are no block, expected at least 512 "
              "(logical_block_size)"},
             {"d=/srv/a,b.img",
              "--disk d: 'b.img' is not key=value, expected one (a path with a comma needs "
              "--config FILE)"},
             {"d=/x,", "--disk d: nothing after ',', expected key=value"},
             {"d=/x,,nomerges=1",
              "--disk d: '' is not key=value, expected one (a path with a comma needs --config "
              "FILE)"},
             {"d=/x,nr_request=64", "--disk d: nr_request: unknown key, did you mean nr_requests?"},
             {"d=/x,fifo_batch=2",
              "--disk d: fifo_batch: unknown key, did you mean iosched/fifo_batch?"},
             {"d=/x,queue/nr_requests=2",
              "--disk d: queue/nr_requests: unknown key, did you mean nr_requests?"},
             {"d=/x,queue.iosched.fifo_batch=2",
              "--disk d: queue.iosched.fifo_batch: unknown key, did you mean iosched/fifo_batch?"},
             {"d=/x,zebra=1",
              "--disk d: zebra: unknown key, expected one of backing, scheduler, queue_depth, "
              "logical_block_size, read_only, buffer_memory, model, model_service, "
              "model_parallel, model_sequential, model_random, nr_requests, async_depth, nomerges, "
              "iosched/fifo_batch"},
             {"d=/x,backing=/y", "--disk d: backing: given twice, expected once"},
             {"d=/x,nomerges=1,nomerges=1", "--disk d: nomerges: given twice, expected once"},
             {"d=/x,nomerges=", "--disk d: nomerges: it is empty, expected a value to write"},
             {"d=/x,read_only=maybe",
              "--disk d: read_only: 'maybe' is neither true nor false, expected 1 or 0, true or "
              "false"},
             {"d=/x,queue_depth=ten",
              "--disk d: queue_depth: 'ten' is not valid, expected a whole number from 1 to 10240"},
             {"d=/x,model=delay,model_random=1ms",
              "--disk d: model_random: no meaning with model delay, expected model seek"},
             {"d=/x,model=delay,model_parallel=0",
              "--disk d: model_parallel: '0' is not valid, expected a whole number from 1 to "
              "10240"},
         }) {
      CAPTURE(row.disk);
      CHECK(refused({"--disk", row.disk}) == row.error);
    }
    for (const std::string name :
         {"", "Fast", ".a", "-a", "_a", "a/b", "a b", "..", "a2345678901234567890123456789012"}) {
      CAPTURE(name);
      CHECK(refused({"--disk", (name + "=/x").c_str()}) ==
            "--disk: '" + name + "' " + std::string(kNameRule));
    }
    CHECK(good({"--disk", "0.a_b-c=/x"}).disks.at(0).name == "0.a_b-c");
    CHECK(good({"--disk", "a234567890123456789012345678901=/x"}).disks.size() == 1);
  }
}
