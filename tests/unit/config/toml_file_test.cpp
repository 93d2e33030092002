// SPDX-License-Identifier: Apache-2.0
#include "config/toml_file.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <string_view>

namespace config = elevd::config;
using namespace std::chrono_literals;

namespace {

constexpr std::array<std::string_view, 7> kAttributes = {
    "scheduler",   "nr_requests",        "async_depth",        "nomerges",
    "write_cache", "iosched/fifo_batch", "iosched/read_expire"};

config::Result<config::FileConfig> parse(std::string_view text) {
  return config::parse_toml(text, "f.toml", kAttributes);
}

std::string error_of(std::string_view text) {
  const auto result = parse(text);
  return result ? "(no error)" : result.error().what;
}

}  // namespace

TEST_SUITE("TOML file") {
  TEST_CASE("an empty file says nothing") {
    const auto file = parse("# only a comment\n");
    REQUIRE(file.has_value());
    CHECK_FALSE(file->directory.has_value());
    CHECK_FALSE(file->transport.has_value());
    CHECK_FALSE(file->workers.has_value());
    CHECK_FALSE(file->stop_timeout.has_value());
    CHECK(file->disks.empty());
  }

  TEST_CASE("every key of the top level is read") {
    const auto file = parse(
        "transport = \"uring\"\n"
        "dir = \"/srv/elevd\"\n"
        "workers = 3\n"
        "stop_timeout = \"500ms\"\n"
        "busy_poll = \"50us\"\n");
    REQUIRE(file.has_value());
    CHECK(file->directory == "/srv/elevd");
    CHECK(file->transport == config::Transport::uring);
    CHECK(file->workers == 3);
    CHECK(file->stop_timeout == 500ms);
    CHECK(file->busy_poll == 50us);
    CHECK(parse("stop_timeout = 5\n")->stop_timeout == 5s);
  }

  TEST_CASE("every key of a disk is read") {
    const auto file = parse(
        "[disk.fast]\n"
        "backing = \"/srv/a,b.img\"\n"
        "scheduler = \"mq-deadline\"\n"
        "queue_depth = 64\n"
        "logical_block_size = \"4K\"\n"
        "read_only = true\n"
        "buffer_memory = 2097152\n"
        "model = \"delay\"\n"
        "model_service = \"250us\"\n"
        "model_parallel = 4\n"
        "[disk.slow]\n"
        "backing = \"ram:1G\"\n"
        "logical_block_size = 1024\n"
        "model = \"seek\"\n"
        "model_sequential = \"1ms\"\n"
        "model_random = \"9ms\"\n");
    REQUIRE(file.has_value());
    REQUIRE(file->disks.size() == 2);
    const config::DiskConfig& fast = file->disks[0];
    CHECK(fast.name == "fast");
    CHECK(fast.origin == "f.toml:1");
    CHECK(fast.backing.kind == config::BackingSpec::Kind::path);
    CHECK(fast.backing.path == "/srv/a,b.img");
    CHECK(fast.scheduler == "mq-deadline");
    CHECK(fast.scheduler_origin == "f.toml:3");
    CHECK(fast.queue_depth == 64);
    CHECK(fast.logical_block_size == 4096);
    CHECK(fast.read_only);
    CHECK(fast.buffer_memory == 2097152);
    CHECK(fast.model.kind == config::ModelSpec::Kind::delay);
    CHECK(fast.model.service == 250us);
    CHECK(fast.model.parallel == 4);
    const config::DiskConfig& slow = file->disks[1];
    CHECK(slow.origin == "f.toml:11");
    CHECK(slow.backing.kind == config::BackingSpec::Kind::ram);
    CHECK(slow.backing.bytes == std::uint64_t{1} << 30);
    CHECK(slow.logical_block_size == 1024);
    CHECK(slow.model.kind == config::ModelSpec::Kind::seek);
    CHECK(slow.model.sequential == 1ms);
    CHECK(slow.model.random == 9ms);
  }

  TEST_CASE("weights of groups") {
    const auto file = parse(
        "[disk.d]\n"
        "backing = \"null:4096\"\n"
        "[disk.d.group_weights]\n"
        "\"/system.slice/backup.service\" = 50\n"
        "default = 200\n");
    REQUIRE(file.has_value());
    const auto& weights = file->disks.at(0).group_weights;
    REQUIRE(weights.size() == 2);
    CHECK(weights[0].path == "/system.slice/backup.service");
    CHECK(weights[0].text == "50");
    CHECK(weights[0].origin == "f.toml:4");
    CHECK(weights[1].path == "default");
    const std::string head = "[disk.d]\nbacking = \"null:4096\"\n";
    CHECK(error_of(head + "group_weights = 5\n") ==
          "f.toml:3: disk.d.group_weights: wrong type, expected a table of paths and weights");
    CHECK(error_of(head + "group_weights = { \"/a\" = \"5\" }\n") ==
          "f.toml:3: disk.d.group_weights./a: wrong type, expected a whole number");
    CHECK(error_of(head + "group_weights = { a = 5 }\n") ==
          "f.toml:3: disk.d.group_weights.a: 'a' is no group, expected the path of a cgroup or "
          "default");
    CHECK(error_of(head + "group_weights = { \"/a\" = 1001 }\n")
              .starts_with("f.toml:3: disk.d.group_weights./a: '1001' is not valid, expected a "
                           "whole number from 1 to 1000"));
    CHECK(error_of("group_weights = { \"/a\" = 5 }\n") ==
          "f.toml:1: group_weights: unknown key, expected below a line [disk.NAME]");
  }

  TEST_CASE("what a disk leaves out has its default") {
    const auto file = parse("[disk.d]\nbacking = \"null:4096\"\n");
    REQUIRE(file.has_value());
    const config::DiskConfig& disk = file->disks.at(0);
    CHECK(disk.backing.kind == config::BackingSpec::Kind::null);
    CHECK_FALSE(disk.scheduler.has_value());
    CHECK_FALSE(disk.queue_depth.has_value());
    CHECK_FALSE(disk.logical_block_size.has_value());
    CHECK_FALSE(disk.read_only);
    CHECK(disk.buffer_memory == 134217728);
    CHECK(disk.model.kind == config::ModelSpec::Kind::none);
    CHECK(disk.model.service == 100us);
    CHECK(disk.model.parallel == 0);
    CHECK(disk.model.sequential == 300us);
    CHECK(disk.model.random == 3ms);
    CHECK(disk.attributes.empty());
  }

  TEST_CASE("attributes keep the order of the file and become text") {
    const auto file = parse(
        "[disk.d]\n"
        "backing = \"null:1M\"\n"
        "queue.nomerges = true\n"
        "queue.iosched.fifo_batch = 2\n"
        "queue.write_cache = \"write through\"\n"
        "queue.iosched.read_expire = \"100\"\n"
        "queue.async_depth = 8\n"
        "queue.scheduler = \"kyber\"\n");
    REQUIRE(file.has_value());
    const config::DiskConfig& disk = file->disks.at(0);
    struct Row {
      std::string_view path, text, origin;
    };
    // Tables are walked whole: iosched stands where its first key stands.
    constexpr std::array<Row, 5> kExpected = {{{"nomerges", "1", "f.toml:3"},
                                               {"iosched/fifo_batch", "2", "f.toml:4"},
                                               {"iosched/read_expire", "100", "f.toml:6"},
                                               {"write_cache", "write through", "f.toml:5"},
                                               {"async_depth", "8", "f.toml:7"}}};
    REQUIRE(disk.attributes.size() == kExpected.size());
    for (std::size_t i = 0; i < kExpected.size(); ++i) {
      CAPTURE(i);
      CHECK(disk.attributes[i].path == kExpected[i].path);
      CHECK(disk.attributes[i].text == kExpected[i].text);
      CHECK(disk.attributes[i].origin == kExpected[i].origin);
    }
    CHECK(disk.scheduler == "kyber");
    CHECK(disk.scheduler_origin == "f.toml:8");
  }

  TEST_CASE("attributes may stand in tables of their own") {
    const auto file = parse(
        "[disk.d]\nbacking = \"null:1M\"\n"
        "[disk.d.queue]\nnr_requests = 64\n"
        "[disk.d.queue.iosched]\nfifo_batch = 2\n");
    REQUIRE(file.has_value());
    const auto& attributes = file->disks.at(0).attributes;
    REQUIRE(attributes.size() == 2);
    CHECK(attributes[0].path == "nr_requests");
    CHECK(attributes[0].origin == "f.toml:4");
    CHECK(attributes[1].path == "iosched/fifo_batch");
    CHECK(attributes[1].origin == "f.toml:6");
  }

  TEST_CASE("disks keep the order of the file, not of the alphabet") {
    const auto file = parse("[disk.z]\nbacking = \"null:1M\"\n[disk.a]\nbacking = \"null:1M\"\n");
    REQUIRE(file.has_value());
    CHECK(file->disks.at(0).name == "z");
    CHECK(file->disks.at(1).name == "a");
  }

  TEST_CASE("errors of the top level name line, key and what is expected") {
    struct Row {
      std::string_view text, error;
    };
    for (const Row& row : {
             Row{"\ntransprt = \"auto\"\n",
                 "f.toml:2: transprt: unknown key, did you mean "
                 "transport?"},
             {"zebra = 1\n",
              "f.toml:1: zebra: unknown key, expected one of transport, dir, "
              "workers, stop_timeout, busy_poll, disk"},
             {"backing = \"/x\"\n",
              "f.toml:1: backing: unknown key, expected below a line [disk.NAME]"},
             {"transport = \"tcp\"\n",
              "f.toml:1: transport: 'tcp' is not a transport, expected auto, uring or dev"},
             {"transport = 1\n", "f.toml:1: transport: wrong type, expected a string"},
             {"dir = \"\"\n", "f.toml:1: dir: '' is not a directory, expected a path"},
             {"workers = 0\n",
              "f.toml:1: workers: '0' is not valid, expected a whole number from 1 to 64"},
             {"workers = 65\n",
              "f.toml:1: workers: '65' is not valid, expected a whole number from 1 to 64"},
             {"workers = \"2\"\n", "f.toml:1: workers: wrong type, expected a whole number"},
             {"stop_timeout = 1.5\n",
              "f.toml:1: stop_timeout: wrong type, expected a string such as \"500ms\" or a whole "
              "number of seconds"},
             {"stop_timeout = \"25h\"\n",
              "f.toml:1: stop_timeout: '25h' is too long, expected at most 24h"},
             {"busy_poll = \"2s\"\n", "f.toml:1: busy_poll: '2s' is too long, expected at most 1s"},
             {"stop_timeout = -1\n",
              "f.toml:1: stop_timeout: '-1' is not a duration, expected a number with ns, us, ms, "
              "s, m or h (without one: seconds)"},
             {"disk = 1\n", "f.toml:1: disk: wrong type, expected tables named [disk.NAME]"},
             {"[[disk]]\nbacking = \"/x\"\n",
              "f.toml:1: disk: wrong type, expected tables named [disk.NAME]"},
         }) {
      CAPTURE(row.text);
      CHECK(error_of(row.text) == row.error);
    }
  }

  TEST_CASE("errors of a disk name line, key and what is expected") {
    struct Row {
      std::string_view line, error;
    };
    // Each line is the third of a file with a good disk.
    for (const Row& row : {
             Row{"shceduler = \"none\"", "disk.d.shceduler: unknown key, did you mean scheduler?"},
             {"zebra = 1",
              "disk.d.zebra: unknown key, expected one of backing, scheduler, "
              "queue_depth, logical_block_size, read_only, buffer_memory, model, "
              "model_service, model_parallel, model_sequential, model_random, queue, "
              "group_weights"},
             {"workers = 1",
              "disk.d.workers: unknown key, expected above the first line [disk.NAME]"},
             {"nr_requests = 64",
              "disk.d.nr_requests: unknown key, did you mean queue.nr_requests?"},
             {"fifo_batch = 64",
              "disk.d.fifo_batch: unknown key, did you mean queue.iosched.fifo_batch?"},
             {"scheduler = 1", "disk.d.scheduler: wrong type, expected a string"},
             {"scheduler = \"\"",
              "disk.d.scheduler: it is empty, expected the name of a scheduler"},
             {"queue_depth = 0",
              "disk.d.queue_depth: '0' is not valid, expected a whole number from 1 to 10240"},
             {"queue_depth = 10241",
              "disk.d.queue_depth: '10241' is not valid, expected a whole number from 1 to 10240"},
             {"queue_depth = \"64\"", "disk.d.queue_depth: wrong type, expected a whole number"},
             {"logical_block_size = 513",
              "disk.d.logical_block_size: '513' is not possible, expected 512, 1024, 2048 or 4096"},
             {"logical_block_size = [512]",
              "disk.d.logical_block_size: wrong type, expected a string such as \"128M\" or a "
              "whole number of bytes"},
             {"read_only = 1", "disk.d.read_only: wrong type, expected true or false"},
             {"buffer_memory = \"12X\"",
              "disk.d.buffer_memory: '12X' is not a size, expected a whole number of bytes or one "
              "with K, M, G or T (powers of 1024)"},
             {"buffer_memory = \"1023K\"",
              "disk.d.buffer_memory: '1023K' is too small, expected at least 1M"},
             {"model = \"tape\"",
              "disk.d.model: 'tape' is not a model, expected none, delay or seek"},
             {"model_service = \"1ms\"",
              "disk.d.model_service: no meaning with model none, expected model delay"},
             {"model = \"seek\"\nmodel_random = \"2h\"",
              "disk.d.model_random: '2h' is too long, expected at most 1h"},
             {"queue = 1", "disk.d.queue: wrong type, expected attributes below it"},
             {"queue.nr_request = 1",
              "disk.d.queue.nr_request: unknown key, did you mean nr_requests?"},
             {"queue.zebra = 1",
              "disk.d.queue.zebra: unknown key, expected one of scheduler, nr_requests, "
              "async_depth, nomerges, write_cache, iosched"},
             {"queue.ioshced.fifo_batch = 1",
              "disk.d.queue.ioshced: unknown key, did you mean iosched?"},
             {"queue.iosched = 1",
              "disk.d.queue.iosched: wrong type, expected attributes below it"},
             {"queue.iosched.fifo_bacth = 1",
              "disk.d.queue.iosched.fifo_bacth: unknown key, did you mean fifo_batch?"},
             {"queue.nr_requests = 1.5",
              "disk.d.queue.nr_requests: wrong type, expected a string, a whole number, true or "
              "false"},
             {"queue.nr_requests = {a = 1}",
              "disk.d.queue.nr_requests: unknown key, did you mean nr_requests?"},
             {"queue.nr_requests = \"\"",
              "disk.d.queue.nr_requests: it is empty, expected a value to write"},
         }) {
      CAPTURE(row.line);
      const std::string text = "[disk.d]\nbacking = \"null:1M\"\n" + std::string(row.line) + "\n";
      const std::string error = error_of(text);
      const std::size_t line = row.line.find('\n') == std::string_view::npos ? 3 : 4;
      CHECK(error == "f.toml:" + std::to_string(line) + ": " + std::string(row.error));
    }
  }

  TEST_CASE("a scheduler given by both its names is given twice") {
    CHECK(error_of("[disk.d]\nbacking = \"null:1M\"\nscheduler = \"none\"\n"
                   "queue.scheduler = \"none\"\n") ==
          "f.toml:4: disk.d.queue.scheduler: given twice (first in f.toml:3), expected once");
  }

  TEST_CASE("a disk needs a good name and a good backing") {
    struct Row {
      std::string_view text, error;
    };
    for (const Row& row : {
             Row{"[disk.d]\nread_only = true\n",
                 "f.toml:1: disk.d: no backing, expected backing = PATH, \"ram:SIZE\" or "
                 "\"null:SIZE\""},
             {"disk.d = 1\n", "f.toml:1: disk.d: wrong type, expected a table [disk.d]"},
             {"[disk.Fast]\n",
              "f.toml:1: disk.Fast: 'Fast' is not a disk name, expected 1 to 31 of a-z, 0-9, '_', "
              "'.' and '-', a letter or digit first"},
             {"[disk.\"a\\nb\"]\n",
              "f.toml:1: disk.a\\x0ab: 'a\\x0ab' is not a disk name, expected 1 to 31 of a-z, "
              "0-9, '_', '.' and '-', a letter or digit first"},
             {"[disk.d]\nbacking = \"\"\n",
              "f.toml:2: disk.d.backing: '' is not a backing, expected a path, ram:SIZE or "
              "null:SIZE"},
             {"[disk.d]\nbacking = \"a\\u0000b\"\n",
              "f.toml:2: disk.d.backing: 'a\\x00b' is not a backing, expected a path, ram:SIZE or "
              "null:SIZE"},
             {"[disk.d]\nbacking = \"ram:\"\n",
              "f.toml:2: disk.d.backing: '' is not a size, expected a whole number of bytes or "
              "one with K, M, G or T (powers of 1024)"},
             {"[disk.d]\nbacking = \"null:0\"\n",
              "f.toml:2: disk.d.backing: 'null:0' has an impossible size, expected 1 to "
              "9223372036854775807 bytes"},
             {"[disk.d]\nbacking = \"null:8388608T\"\n",
              "f.toml:2: disk.d.backing: 'null:8388608T' has an impossible size, expected 1 to "
              "9223372036854775807 bytes"},
             {"[disk.d]\nlogical_block_size = 4096\nbacking = \"ram:2K\"\n",
              "f.toml:3: disk.d.backing: 2048 bytes are no block, expected at least 4096 "
              "(logical_block_size)"},
         }) {
      CAPTURE(row.text);
      CHECK(error_of(row.text) == row.error);
    }
  }

  TEST_CASE("bad TOML is one line with its place") {
    const std::string syntax = error_of("workers = 1\ndir = \n");
    CHECK(syntax.starts_with("f.toml:2: "));
    CHECK(syntax.find('\n') == std::string::npos);
    const std::string twice = error_of("workers = 1\nworkers = 2\n");
    CHECK(twice.starts_with("f.toml:2: "));
    CHECK(twice.find("workers") != std::string::npos);
    CHECK(error_of("[disk.d]\n[disk.d]\n").starts_with("f.toml:2: "));
  }

  TEST_CASE("a file that cannot be read is named with the reason") {
    const auto missing = config::load("/nonexistent/elevd.toml", kAttributes);
    REQUIRE_FALSE(missing.has_value());
    CHECK(missing.error().code == ENOENT);
    CHECK(missing.error().what == "/nonexistent/elevd.toml: No such file or directory");
    const auto directory = config::load("/", kAttributes);
    REQUIRE_FALSE(directory.has_value());
    CHECK(directory.error().code == EISDIR);
    CHECK(directory.error().what == "/: Is a directory");
  }

  TEST_CASE("the sample that is installed is good") {
    const auto file = config::load(ELEVD_SOURCE_DIR "/packaging/elevd.toml", kAttributes);
    REQUIRE_MESSAGE(file.has_value(), file.error().what);
    CHECK_FALSE(file->disks.empty());
  }

  TEST_CASE("the sample is good with everything in it that is commented out, too") {
    constexpr std::array<std::string_view, 3> kUsed = {"nr_requests", "nomerges", "max_sectors_kb"};
    std::ifstream sample(ELEVD_SOURCE_DIR "/packaging/elevd.toml");
    std::string text;
    for (std::string line; std::getline(sample, line);) {
      const bool is_prose = line.size() < 2 || line[0] != '#' || line[1] == ' ';
      text += (is_prose ? line : line.substr(1)) + "\n";
    }
    const auto file = config::parse_toml(text, "f.toml", kUsed);
    REQUIRE_MESSAGE(file.has_value(), file.error().what);
    CHECK(file->workers == 2);
    REQUIRE(file->disks.size() == 4);
    CHECK(file->disks[1].attributes.size() == 3);
    CHECK(file->disks[3].model.parallel == 8);
  }
}
