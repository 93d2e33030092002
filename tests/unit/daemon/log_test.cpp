// SPDX-License-Identifier: Apache-2.0
#include "daemon/log.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

namespace elevd::daemon {
namespace {

using namespace std::chrono_literals;

// Everything that is written to stderr while this lives.
class CapturedStderr {
 public:
  CapturedStderr() {
    std::array<int, 2> ends{};
    REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
    saved_ = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    read_end_ = ends[0];
  }
  ~CapturedStderr() {
    restore();
    close(read_end_);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  std::string text() {
    restore();  // closes the last write end: the pipe ends
    std::string all;
    std::array<char, 4096> chunk{};
    for (ssize_t got = 0; (got = read(read_end_, chunk.data(), chunk.size())) > 0;) {
      all.append(chunk.data(), static_cast<std::size_t>(got));
    }
    return all;
  }

 private:
  void restore() {
    if (saved_ < 0) return;
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    saved_ = -1;
  }
  int saved_ = -1;
  int read_end_ = -1;
};

TEST_SUITE("log") {
  TEST_CASE("a line says who speaks, and how bad it is") {
    CHECK(format_log_line(Level::error, "gone", false) == "elevd: error: gone\n");
    CHECK(format_log_line(Level::warning, "odd", false) == "elevd: warning: odd\n");
    CHECK(format_log_line(Level::notice, "so", false) == "elevd: so\n");
    CHECK(format_log_line(Level::info, "so", false) == "elevd: so\n");
  }

  TEST_CASE("under the journal a line carries its priority") {
    CHECK(format_log_line(Level::error, "gone", true) == "<3>gone\n");
    CHECK(format_log_line(Level::debug, "detail", true) == "<7>detail\n");
  }

  TEST_CASE("a message stays one line whatever is in it") {
    CHECK(format_log_line(Level::info, "a\nelevd: error: b\t\x7f", false) ==
          "elevd: a?elevd: error: b??\n");
    CHECK(format_log_line(Level::info, "gr\xc3\xbc\xc3\x9f", false) ==
          "elevd: gr\xc3\xbc\xc3\x9f\n");
  }

  TEST_CASE("the journal is known by device and inode") {
    CHECK(is_journal_stream("9:1234", 9, 1234));
    struct Row {
      const char* stream;
    };
    for (const Row& row : {Row{nullptr}, Row{""}, Row{"9"}, Row{"9:"}, Row{":1234"}, Row{"9:1235"},
                           Row{"8:1234"}, Row{"9:1234x"}, Row{" 9:1234"}, Row{"9:1234:"}}) {
      CHECK_FALSE(is_journal_stream(row.stream, 9, 1234));
    }
  }

  TEST_CASE("messages below the level are dropped") {
    CapturedStderr captured;
    set_log_level(Level::notice);
    log(Level::info, "not {}", "shown");
    log(Level::notice, "shown {}", 1);
    set_log_level(Level::info);
    CHECK(captured.text() == "elevd: shown 1\n");
  }

  TEST_CASE("lines of several threads do not mix") {
    CapturedStderr captured;
    {
      std::vector<std::jthread> threads;
      for (char name : {'a', 'b', 'c', 'd'}) {
        threads.emplace_back([name] {
          for (int i = 0; i < 50; ++i) log(Level::info, "{}", std::string(40, name));
        });
      }
    }
    const std::string text = captured.text();
    std::size_t lines = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      REQUIRE(end != std::string::npos);
      const std::string line = text.substr(at, end - at);
      REQUIRE(line == "elevd: " + std::string(40, line.back()));
      at = end + 1;
      ++lines;
    }
    CHECK(lines == 200);
  }

  TEST_CASE("a message comes once per interval, with the number kept back") {
    RateLimiter limiter;
    const RateLimiter::Instant start{};
    CHECK(limiter.admit("a", 1s, start) == 0);
    CHECK_FALSE(limiter.admit("a", 1s, start + 1ms));
    CHECK_FALSE(limiter.admit("a", 1s, start + 999ms));
    CHECK(limiter.admit("b", 1s, start + 999ms) == 0);
    CHECK(limiter.admit("a", 1s, start + 1s) == 2);
    CHECK_FALSE(limiter.admit("a", 1s, start + 1s));
    CHECK(limiter.admit("a", 1s, start + 2s) == 1);
    CHECK(limiter.admit("a", 1s, start + 3s) == 0);
  }

  TEST_CASE("a rate-limited message says how many were kept back") {
    CapturedStderr captured;
    log_once_per("log_test", 1h, Level::info, "short {}", 1);
    log_once_per("log_test", 1h, Level::info, "short {}", 2);
    log_once_per("log_test", 0s, Level::info, "short {}", 3);
    CHECK(captured.text() == "elevd: short 1\nelevd: short 3 (1 more of these not shown)\n");
  }
}

}  // namespace
}  // namespace elevd::daemon
