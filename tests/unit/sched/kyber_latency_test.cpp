// SPDX-License-Identifier: Apache-2.0
// Histograms, percentiles, the timer and the depths of kyber: docs/spec/kyber.md section 5 and the
// worked examples 10 to 17.
#include "sched/kyber_latency.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "sched/kyber.hpp"

namespace elevd::sched::test::kyber_latencies {
namespace {

using namespace literals;

constexpr KyberDomain kRead = KyberDomain::read;
constexpr KyberDomain kWrite = KyberDomain::write;
constexpr KyberLatencyKind kTotal = KyberLatencyKind::total;
constexpr KyberLatencyKind kIo = KyberLatencyKind::io;
constexpr std::uint64_t kReadTarget = 2'000'000;

/// Samples of `bucket` of the read target.
void fill(KyberLatency& latency, KyberLatencyKind kind, unsigned bucket, unsigned n,
          KyberDomain domain = kRead) {
  const auto width = static_cast<std::int64_t>(latency.target(domain) / 4);
  for (; n != 0; --n) latency.sample(n % 4, domain, kind, {width * bucket + 1});
}

struct Writer : KyberTrace {
  std::vector<std::string> lines;
  static std::string name(KyberDomain domain) {
    constexpr const char* kNames[] = {"READ", "WRITE", "DISCARD", "OTHER"};
    return kNames[static_cast<unsigned>(domain)];
  }
  void latency(KyberDomain domain, KyberLatencyKind kind, unsigned percent, unsigned bucket,
               std::uint64_t samples) override {
    lines.push_back(name(domain) + (kind == kTotal ? " total p" : " I/O p") +
                    std::to_string(percent) + " " + std::to_string(bucket + 1) +
                    "/4 samples=" + std::to_string(samples));
  }
  void adjusted(KyberDomain domain, std::uint32_t depth) override {
    lines.push_back(name(domain) + " " + std::to_string(depth));
  }
  void throttled(KyberDomain domain) override { lines.push_back(name(domain)); }
};

/// A kyber whose requests take as long as they are told.
class Rig {
 public:
  Rig() {
    kyber.attach({&limits_, &nomerges_});
    kyber.set_trace(&trace);
  }

  /// `n` requests of `op`, one after the other, each `io` at the device and `total` altogether.
  void complete(Op op, unsigned n, Duration total, Duration io) {
    for (; n != 0; --n) {
      Request rq;
      rq.op = op;
      rq.elevator_data = nullptr;
      RequestList list, merged;
      list.push_back(rq);
      kyber.insert(list, merged, now);
      REQUIRE(kyber.dispatch(now) == &rq);
      rq.allocated = now + (Duration{} - total);
      rq.issued = now + (Duration{} - io);
      last_said_ = kyber.completed(rq, now);
    }
  }
  void complete(Op op, unsigned n, Duration latency) { complete(op, n, latency, latency); }

  /// 100 ms later.
  void fire() {
    now = now + 100_ms;
    kyber.timer(now);
    kyber.check();
  }

  [[nodiscard]] std::uint32_t depth(KyberDomain domain) const { return kyber.pool(domain).depth(); }
  /// "READ/WRITE"
  [[nodiscard]] std::string depths() const {
    return std::to_string(depth(kRead)) + "/" + std::to_string(depth(kWrite));
  }
  [[nodiscard]] bool last_said() const { return last_said_; }

  Kyber kyber;
  Writer trace;
  Instant now{1'000'000'000};

 private:
  Limits limits_;
  std::atomic<unsigned> nomerges_{0};
  bool last_said_ = false;
};

}  // namespace

TEST_SUITE("kyber latencies") {
  TEST_CASE("buckets: a quarter of the target wide, the last one open (example 17)") {
    struct Row {
      std::int64_t latency;
      std::uint64_t target;
      unsigned bucket;
    };
    for (const Row& row : {
             Row{0, kReadTarget, 0},
             {1, kReadTarget, 0},
             {500'000, kReadTarget, 0},
             {500'001, kReadTarget, 1},
             {2'000'000, kReadTarget, 3},
             {2'000'001, kReadTarget, 4},
             {3'500'000, kReadTarget, 6},
             {3'500'001, kReadTarget, 7},
             {10'000'000, kReadTarget, 7},
             {-5, kReadTarget, 0},
             {0, 0, 0},
             {1, 0, 0},
             {7, 0, 6},
             {8, 0, 7},
             {1'000'000'000, 0, 7},
             {4, 3, 3},
             {1'000'000'000, std::numeric_limits<std::uint64_t>::max(), 0},
         }) {
      CAPTURE(row.latency);
      CAPTURE(row.target);
      CHECK(KyberLatency::bucket({row.latency}, row.target) == row.bucket);
    }
  }

  TEST_CASE("targets: the defaults, and only for what comes") {
    KyberLatency latency;
    CHECK(latency.target(kRead) == 2'000'000);
    CHECK(latency.target(kWrite) == 10'000'000);
    CHECK(latency.target(KyberDomain::discard) == 5'000'000'000);
    for (unsigned n = 0; n < 500; ++n) latency.sample(0, kRead, kTotal, 10_ms);
    latency.set_target(kRead, 1'000'000'000);
    latency.collect(1);
    CHECK(latency.percentile(kRead, kTotal, 99, {0}) == 7);
  }

  TEST_CASE("a percentile is the bucket in which it ends, and forgets (example 13)") {
    for (const auto& [percent, bucket] : {std::pair{99U, 5U}, {98U, 0U}, {90U, 0U}}) {
      CAPTURE(percent);
      KyberLatency latency;
      fill(latency, kTotal, 0, 980);
      fill(latency, kTotal, 5, 20);
      CHECK(latency.collect(64) == 1000);
      CHECK(latency.percentile(kRead, kTotal, percent, {0}) == bucket);
      CHECK_FALSE(latency.percentile(kRead, kTotal, percent, {0}).has_value());
    }
  }

  TEST_CASE("what is needed is rounded up: of 501 samples p99 is the 496th") {
    for (const unsigned good : {495U, 496U}) {
      KyberLatency latency;
      fill(latency, kTotal, 1, good);
      fill(latency, kTotal, 6, 501 - good);
      latency.collect(64);
      CHECK(latency.percentile(kRead, kTotal, 99, {0}) == (good == 496 ? 1U : 6U));
    }
  }

  TEST_CASE("500 samples, or a second") {
    KyberLatency latency;
    fill(latency, kIo, 2, 499);
    latency.collect(64);
    CHECK_FALSE(latency.percentile(kRead, kIo, 90, {0}).has_value());
    fill(latency, kIo, 2, 1);
    latency.collect(64);
    CHECK(latency.percentile(kRead, kIo, 90, {0}) == 2);
    fill(latency, kIo, 3, 1);
    latency.collect(64);
    CHECK_FALSE(latency.percentile(kRead, kIo, 90, Instant{} + 100_ms).has_value());
    CHECK_FALSE(latency.percentile(kRead, kIo, 90, Instant{1'099'999'999}).has_value());
    CHECK(latency.percentile(kRead, kIo, 90, Instant{1'100'000'000}) == 3);
  }

  TEST_CASE("both kinds share the second: total is evaluated with 500 samples only") {
    KyberLatency latency;
    Instant now;
    unsigned io = 0;
    unsigned total = 0;
    for (unsigned firing = 0; firing < 48; ++firing, now = now + 100_ms) {
      fill(latency, kTotal, 5, 10);
      fill(latency, kIo, 5, 10);
      latency.collect(64);
      if (latency.percentile(kRead, kIo, 90, now)) ++io;
      if (latency.percentile(kRead, kTotal, 99, now)) ++total;
    }
    CHECK(io == 4);
    CHECK(total == 0);
  }

  TEST_CASE("the factors of section 5.3, and what integers make of them (examples 14 and 16)") {
    struct Row {
      std::uint32_t depth;
      unsigned bucket;
      std::uint32_t scaled;
    };
    for (const Row& row : {
             Row{128, 0, 32}, {128, 1, 64}, {128, 2, 96}, {128, 3, 128}, {64, 4, 80},
             {64, 5, 96},     {64, 6, 112}, {64, 7, 128}, {128, 4, 128}, {3, 4, 3},
             {3, 6, 5},       {1, 4, 1},    {1, 5, 1},    {1, 6, 1},     {1, 7, 2},
             {2, 4, 2},       {2, 5, 3},    {1, 0, 1},    {3, 0, 1},     {2, 0, 1},
         }) {
      CAPTURE(row.depth);
      CAPTURE(row.bucket);
      CHECK(KyberLatency::scaled(row.depth, row.bucket, 128) == row.scaled);
    }
  }

  TEST_CASE("reads bad and writes good, then all good, then writes bad (examples 10 to 12)") {
    Rig rig;
    for (const char* depths : {"256/32", "256/8", "256/2", "256/1", "256/1"}) {
      rig.complete(Op::read, 501, 10_ms);
      rig.complete(Op::write, 501, 1_ms);
      rig.fire();
      CHECK(rig.depths() == depths);
    }
    for (unsigned n = 0; n < 10; ++n) {
      rig.complete(Op::read, 501, 100_us);
      rig.complete(Op::write, 501, 100_us);
      rig.fire();
      CHECK(rig.depths() == "256/1");
    }
    for (const char* depths : {"64/2", "16/4", "4/8", "1/16", "1/32", "1/64", "1/128", "1/128"}) {
      rig.complete(Op::read, 501, 100_us);
      rig.complete(Op::write, 501, 100_ms);
      rig.fire();
      CHECK(rig.depths() == depths);
    }
  }

  TEST_CASE("good latencies without congestion are remembered until there is one (example 15)") {
    Rig rig;
    rig.complete(Op::write, 600, 7_ms);  // bucket 2
    rig.fire();
    CHECK(rig.depths() == "256/128");
    CHECK(rig.kyber.latency().remembered(kWrite) == 2);
    rig.complete(Op::read, 600, 100_us, 3_ms);  // nothing of writes; the device is congested
    rig.fire();
    CHECK(rig.depths() == "64/96");
    CHECK_FALSE(rig.kyber.latency().remembered(kWrite).has_value());
    rig.complete(Op::read, 600, 100_us, 3_ms);
    rig.fire();
    CHECK(rig.depths() == "16/96");
  }

  TEST_CASE("not congested: only a bad total latency changes a depth, and only upwards") {
    Rig rig;
    rig.complete(Op::write, 600, 1_ms);
    rig.complete(Op::read, 600, 10_ms);
    rig.fire();
    CHECK(rig.depths() == "256/32");
    rig.complete(Op::write, 600, 20_ms, 1_ms);
    rig.complete(Op::read, 600, 1_ms);
    rig.fire();
    CHECK(rig.depths() == "256/64");
    CHECK(rig.trace.lines ==
          std::vector<std::string>{
              "READ I/O p90 8/4 samples=600", "WRITE I/O p90 1/4 samples=600",
              "READ total p99 8/4 samples=600", "WRITE total p99 1/4 samples=600", "WRITE 32",
              "READ I/O p90 2/4 samples=600", "WRITE I/O p90 1/4 samples=600",
              "READ total p99 2/4 samples=600", "WRITE total p99 8/4 samples=600", "WRITE 64"});
  }

  TEST_CASE("discards are measured against five seconds, the rest not at all") {
    Rig rig;
    rig.complete(Op::discard, 600, {5'000'000'001});
    rig.complete(Op::write, 600, 1_ms);
    rig.complete(Op::write_zeroes, 600, 100_ms);
    rig.fire();
    CHECK(rig.depth(KyberDomain::discard) == 64);
    CHECK(rig.depth(kWrite) == 32);
    CHECK(rig.depth(KyberDomain::other) == 16);
  }

  TEST_CASE("the timer: set by the first completion, for 100 ms later; none without traffic") {
    Rig rig;
    CHECK_FALSE(rig.kyber.timer_at().has_value());
    rig.complete(Op::read, 1, 1_ms);
    CHECK(rig.last_said());
    const Instant due = rig.now + 100_ms;
    CHECK(rig.kyber.timer_at() == due);
    rig.now = rig.now + 50_ms;
    rig.complete(Op::read, 1, 1_ms);
    CHECK_FALSE(rig.last_said());
    CHECK(rig.kyber.timer_at() == due);
    rig.kyber.timer(Instant{due.ns - 1});
    CHECK(rig.kyber.timer_at() == due);
    rig.kyber.timer(due);
    CHECK_FALSE(rig.kyber.timer_at().has_value());
    rig.complete(Op::write_zeroes, 1, 1_ms);
    CHECK_FALSE(rig.kyber.timer_at().has_value());
  }

  TEST_CASE("every sample is moved, once: twice as many as completions (invariant 7)") {
    Rig rig;
    rig.complete(Op::read, 30, 1_ms);
    rig.complete(Op::write, 20, 1_ms);
    rig.complete(Op::discard, 10, 1_ms);
    rig.complete(Op::write_zeroes, 5, 1_ms);
    CHECK(rig.kyber.latency().collect(64) == 120);
    CHECK(rig.kyber.latency().collect(64) == 0);
  }
}

}  // namespace elevd::sched::test::kyber_latencies
