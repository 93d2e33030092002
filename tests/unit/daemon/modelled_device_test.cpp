// SPDX-License-Identifier: Apache-2.0
// The device of a live disk: what waits for its time, and what `stall` and `release` do
// (docs/spec/scenario.md section 2).
#include "daemon/modelled_device.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <deque>
#include <ostream>
#include <string>

using namespace elevd::daemon;
using elevd::sched::Instant;
using elevd::sched::Request;
using elevd::sched::Sector;
using elevd::sched::Sectors;

namespace {

constexpr Instant us(std::int64_t n) { return Instant{n * 1000}; }

struct Bench {
  explicit Bench(const DeviceTiming& timing = {}) : device(timing, 8) {}
  ~Bench() {
    take(us(1'000'000));
    if (device.command("release all", us(1'000'000)) == 0) {
      while (!take(us(1'000'000)).empty()) {
      }
    }
    take(us(2'000'000));
  }

  Request& dispatch(std::uint64_t start, Instant now) {
    Request& rq = requests.emplace_back();
    rq.start = Sector{start};
    rq.length = Sectors{8};
    next = device.add(rq, now);
    return rq;
  }
  /// Dispatched, and its I/O done.
  void add(std::uint64_t start, Instant now) {
    Request& rq = dispatch(start, now);
    CHECK_FALSE(device.io_done(rq, 0));
  }
  /// The starts of what one look completes.
  std::string take(Instant now) {
    std::string text;
    next = device.take(now, [&text](Request& rq, int) {
      text += (text.empty() ? "" : " ") + std::to_string(rq.start.value);
    });
    return text;
  }

  ModelledDevice device;
  std::deque<Request> requests;
  std::optional<Instant> next;
};

}  // namespace

TEST_SUITE("modelled device") {
  TEST_CASE("a completion waits until it is due, and for its I/O") {
    Bench bench;
    bench.add(0, us(0));
    CHECK(bench.next == us(100));
    Request& slow = bench.dispatch(100, us(10));
    CHECK(bench.take(us(99)) == "");
    CHECK(bench.next == us(100));
    CHECK(bench.take(us(200)) == "0");
    CHECK_FALSE(bench.next.has_value());
    CHECK(bench.device.io_done(slow, 0));
  }

  TEST_CASE("a stalled device serves nothing; all that are there are released one a look") {
    Bench bench;
    bench.add(0, us(0));
    CHECK(bench.device.command("stall\n", us(10)) == 0);
    bench.add(100, us(20));
    bench.add(200, us(30));
    CHECK(bench.take(us(10'000)) == "");
    CHECK_FALSE(bench.next.has_value());
    CHECK(bench.device.describe() == "stalled=1\nat_device=3\n");
    CHECK(bench.device.command("release all", us(10'000)) == 0);
    CHECK(bench.take(us(10'000)) == "0");
    CHECK(bench.next == us(10'000));  // at once again
    bench.add(300, us(10'000));       // what the queue gave after the first: it is not released
    CHECK(bench.device.describe() == "stalled=1\nat_device=3\n");
    CHECK(bench.take(us(10'000)) == "100");
    CHECK(bench.take(us(10'000)) == "200");
    CHECK(bench.device.describe() == "stalled=0\nat_device=1\n");
    CHECK(bench.next == us(10'100));
    CHECK(bench.take(us(10'100)) == "300");
  }

  TEST_CASE("release N: the oldest ones, those that come meanwhile too; the rest is void") {
    Bench bench;
    REQUIRE(bench.device.command("stall", us(0)) == 0);
    bench.add(500, us(1));
    bench.add(100, us(2));
    CHECK(bench.device.command("release 1", us(3)) == 0);
    CHECK(bench.take(us(3)) == "500");
    CHECK_FALSE(bench.next.has_value());
    CHECK(bench.take(us(9)) == "");
    CHECK(bench.device.command("release 9\n", us(10)) == 0);
    CHECK(bench.take(us(10)) == "100");
    bench.add(200, us(10));
    CHECK(bench.take(us(10)) == "200");
    CHECK(bench.take(us(10)) == "");
    CHECK_FALSE(bench.next.has_value());
    bench.add(300, us(11));
    CHECK(bench.take(us(5000)) == "");
    CHECK(bench.device.describe() == "stalled=1\nat_device=1\n");
  }

  TEST_CASE("a released request whose I/O is not done is completed by its end") {
    Bench bench;
    REQUIRE(bench.device.command("stall", us(0)) == 0);
    Request& rq = bench.dispatch(0, us(1));
    REQUIRE(bench.device.command("release all", us(2)) == 0);
    CHECK(bench.take(us(2)) == "");
    CHECK(bench.device.io_done(rq, 0));
    CHECK(bench.device.describe() == "stalled=0\nat_device=0\n");
  }

  TEST_CASE("a stall keeps what is released already, and ends the end of the one before") {
    Bench bench;
    REQUIRE(bench.device.command("stall", us(0)) == 0);
    bench.add(0, us(1));
    bench.add(100, us(1));
    REQUIRE(bench.device.command("release all", us(2)) == 0);
    REQUIRE(bench.device.command("stall", us(2)) == 0);
    CHECK(bench.take(us(2)) == "0");
    CHECK(bench.take(us(2)) == "100");
    CHECK(bench.device.describe() == "stalled=1\nat_device=0\n");
  }

  TEST_CASE("what is refused changes nothing") {
    Bench bench;
    bench.add(0, us(0));
    for (const char* text : {"", "\n", "stal", "stall all", " stall", "stall\n\n", "release",
                             "release ", "release 1", "release all", "run", "0"}) {
      CAPTURE(text);
      CHECK(bench.device.command(text, us(1)) == EINVAL);
    }
    CHECK(bench.device.describe() == "stalled=0\nat_device=1\n");
    REQUIRE(bench.device.command("stall", us(1)) == 0);
    for (const char* text :
         {"release", "release x", "release 0", "release -1", "release +1", "release 1 ",
          "release  1", "release 0x1", "release ALL", "release 99999999999999999999"}) {
      CAPTURE(text);
      CHECK(bench.device.command(text, us(1)) == EINVAL);
    }
    CHECK(bench.take(us(1000)) == "");
    CHECK(bench.device.describe() == "stalled=1\nat_device=1\n");
  }
}
