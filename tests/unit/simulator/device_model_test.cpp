// SPDX-License-Identifier: Apache-2.0
// The device model: docs/spec/scenario.md sections 2 and 3.
#include "daemon/device_model.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <string>

using namespace elevd::daemon;
using namespace elevd::sched::literals;
using elevd::sched::Duration;
using elevd::sched::Instant;
using elevd::sched::Op;
using elevd::sched::Sector;
using elevd::sched::Sectors;

namespace {

constexpr Instant us(std::int64_t n) { return Instant{n * 1000}; }

/// A model, and requests that are known by their start.
struct Bench {
  explicit Bench(const DeviceTiming& timing) : model(timing) {}
  ~Bench() {
    while (model.take_oldest({}) != nullptr) {
    }
  }

  void add(std::uint64_t start, Instant now, Op op = Op::read) {
    DeviceEntry& entry = entries.emplace_back();
    entry.op = op;
    entry.start = Sector{start};
    entry.length = op == Op::flush ? Sectors{} : Sectors{8};
    model.add(entry, now);
  }
  /// "start@due": everything that is done by `now`, due times in microseconds.
  std::string done(Instant now) {
    std::string text;
    while (DeviceEntry* const entry = model.take_due(now)) {
      text += (text.empty() ? "" : " ") + std::to_string(entry->start.value) + "@" +
              std::to_string(entry->due.ns / 1000);
    }
    return text;
  }

  DeviceModel model;
  std::deque<DeviceEntry> entries;
};

}  // namespace

TEST_SUITE("device model") {
  TEST_CASE("without a limit every request takes its service time") {
    Bench bench({});
    bench.add(0, us(0));
    bench.add(100, us(30));
    CHECK(bench.model.next_due() == us(100));
    CHECK(bench.done(us(99)) == "");
    CHECK(bench.done(us(500)) == "0@100 100@130");
    CHECK_FALSE(bench.model.next_due());
  }

  TEST_CASE("each operation can have a time of its own; a write of zeroes is a write") {
    DeviceTiming timing;
    timing.special[static_cast<unsigned>(ServiceKind::write)] = 10_us;
    timing.special[static_cast<unsigned>(ServiceKind::discard)] = 20_us;
    timing.special[static_cast<unsigned>(ServiceKind::flush)] = 30_us;
    Bench bench(timing);
    bench.add(1, us(0), Op::read);
    bench.add(2, us(0), Op::write);
    bench.add(3, us(0), Op::discard);
    bench.add(4, us(0), Op::flush);
    bench.add(5, us(0), Op::write_zeroes);
    CHECK(bench.done(us(1000)) == "2@10 5@10 3@20 4@30 1@100");
  }

  TEST_CASE("due times follow from due times, however late somebody looks") {
    Bench bench({.parallel = 1});
    for (std::uint64_t n = 0; n < 3; ++n) bench.add(n, us(0));
    CHECK(bench.done(us(5000)) == "0@100 1@200 2@300");
    bench.add(3, us(6000));
    CHECK(bench.done(us(6100)) == "3@6100");
  }

  TEST_CASE("a request that came while nobody looked begins when it came") {
    Bench bench({.parallel = 1});
    bench.add(0, us(0));
    bench.add(1, us(250));
    CHECK(bench.done(us(1000)) == "0@100 1@350");
  }

  TEST_CASE("two servers, in order of arrival") {
    DeviceTiming timing{.parallel = 2};
    timing.special[static_cast<unsigned>(ServiceKind::write)] = 30_us;
    Bench bench(timing);
    bench.add(1, us(0));
    bench.add(2, us(0), Op::write);
    bench.add(3, us(0), Op::write);
    bench.add(4, us(0));
    CHECK(bench.done(us(1000)) == "2@30 3@60 1@100 4@160");
  }

  TEST_CASE("equal due times: in the order they began") {
    Bench bench({});
    for (const std::uint64_t start : {500U, 100U, 300U}) bench.add(start, us(0));
    CHECK(bench.done(us(100)) == "500@100 100@100 300@100");
  }

  TEST_CASE("seek: sequential if it starts where the one before ended") {
    Bench bench({.seek = true});
    for (const std::uint64_t start : {100U, 108U, 50U, 58U, 66U}) bench.add(start, us(0));
    CHECK(bench.done(us(100000)) == "100@3000 108@3300 50@6300 58@6600 66@6900");
  }

  TEST_CASE("seek: a flush takes its own time and leaves the head where it is") {
    Bench bench({.seek = true});
    bench.add(100, us(0));
    bench.add(0, us(0), Op::flush);
    bench.add(108, us(0));
    CHECK(bench.done(us(100000)) == "100@3000 0@3100 108@3400");
  }

  TEST_CASE("a stalled device serves nothing; what it served begins again") {
    Bench bench({.parallel = 1});
    bench.add(1, us(0));
    bench.add(2, us(0));
    bench.model.stall();
    bench.add(3, us(10));
    CHECK(bench.done(us(10000)) == "");
    CHECK(bench.model.size() == 3);
    CHECK(bench.model.take_oldest(us(10000))->start == Sector{1});
    bench.model.end_stall(us(20000));
    CHECK(bench.done(us(30000)) == "2@20100 3@20200");
  }

  TEST_CASE("the oldest can be taken while it is served; the next one begins then") {
    Bench bench({.parallel = 1});
    bench.add(1, us(0));
    bench.add(2, us(0));
    CHECK(bench.model.take_oldest(us(40))->start == Sector{1});
    CHECK(bench.done(us(1000)) == "2@140");
    CHECK(bench.model.take_oldest(us(1000)) == nullptr);
  }

  TEST_CASE("a change of timing is for those that begin later") {
    Bench bench({.parallel = 1});
    for (std::uint64_t n = 0; n < 4; ++n) bench.add(n, us(0));
    bench.model.set_timing({.service = 10_us, .parallel = 2}, us(50));
    CHECK(bench.done(us(1000)) == "1@60 2@70 3@80 0@100");
  }
}
