// SPDX-License-Identifier: Apache-2.0
// bfq_contention: what it is worth that the merge of a bio only tries the lock of the elevator.
// Threads read and write 4 KiB at random places that nobody can join, in bursts of 4, 64
// outstanding each, on a device that completes at once with 16 tags a thread, so that most wait in
// the elevator. Three kinds of merge, with the same lock: it tries the lock, as it is built; it
// waits for the lock; there is none (nomerges 2). For bfq and mq-deadline, with 1, 2 and 4 threads.
//
// Besides: the share of its time (of CPU) that a thread waits for locks; and the share of the time
// under the lock that the lookups have, measured with an elevator that reads the clock around each
// call, in runs of their own. Lookups that are left out make a run at most 1 / (1 - that share)
// times as fast (docs/spec/bfq.md section 17): the gain they allow.
//
// usage: bfq_contention [--smoke] [ROUNDS]. Kinds take turns; ratios of medians. Ends with status
// 1 if a lone thread left out a lookup.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "closed_loop.hpp"
#include "measure.hpp"
#include "sched/bfq.hpp"
#include "sched/lock.hpp"
#include "sched/mq_deadline.hpp"

using namespace elevd;

namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t ns_since(Clock::time_point begin) {
  return static_cast<std::uint64_t>((Clock::now() - begin) / std::chrono::nanoseconds(1));
}

}  // namespace

// The linker puts the second one in the place of Lock::lock_contended (see CMakeLists.txt), whose
// name is the first now.
void contended_lock(sched::Lock* lock) asm("__real__ZN5elevd5sched4Lock14lock_contendedEv");
void timed_contended_lock(sched::Lock* lock) asm("__wrap__ZN5elevd5sched4Lock14lock_contendedEv");

void timed_contended_lock(sched::Lock* lock) {
  const Clock::time_point begin = Clock::now();
  contended_lock(lock);
  std::atomic<std::uint64_t>& waited = bench::lock_wait_ns();
  waited.store(waited.load(std::memory_order_relaxed) + ns_since(begin), std::memory_order_relaxed);
}

namespace {

constexpr unsigned kOutstanding = 64;  ///< of a thread
constexpr unsigned kBurst = 4;
constexpr unsigned kTags = 16;  ///< of a thread
/// Of a thread. Twice what it needs: bfq admits at most its share of them, and parks who is over.
constexpr unsigned kSchedTags = 2 * kOutstanding;

/// Time under the lock, ns; what reading the clock takes is taken off. Written under the lock.
struct Spent {
  std::atomic<std::uint64_t> lookups{0};
  std::atomic<std::uint64_t> all{0};
};

/// An elevator that measures another one.
class Timed final : public sched::Elevator {
 public:
  Timed(std::unique_ptr<sched::Elevator> inner, Spent& spent)
      : inner_(std::move(inner)), spent_(spent) {
    inner_->attach({&limits_, &nomerges_});
    const Clock::time_point begin = Clock::now();
    for (unsigned n = 0; n < kPairs; ++n) static_cast<void>(ns_since(Clock::now()));
    pair_ns_ = ns_since(begin) / kPairs / 2;
  }

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  void insert(sched::RequestList& list, sched::RequestList& merged, sched::Instant now) override {
    measured(false, [&] { inner_->insert(list, merged, now); });
  }
  sched::Request* dispatch(sched::Instant now) override {
    sched::Request* rq = nullptr;
    measured(false, [&] { rq = inner_->dispatch(now); });
    return rq;
  }
  [[nodiscard]] bool has_work() const override { return inner_->has_work(); }
  [[nodiscard]] bool has_candidates() const override { return inner_->has_candidates(); }
  sched::MergeResult bio_merge(sched::Bio& bio, sched::RequestList& merged,
                               sched::Instant now) override {
    sched::MergeResult result = sched::MergeResult::none;
    measured(true, [&] { result = inner_->bio_merge(bio, merged, now); });
    return result;
  }
  [[nodiscard]] bool allow_merge(const sched::Request& rq, const sched::Bio& bio) const override {
    return inner_->allow_merge(rq, bio);
  }
  [[nodiscard]] bool completes_without_lock() const override {
    return inner_->completes_without_lock();
  }
  [[nodiscard]] bool completed(sched::Request& rq, sched::Instant now) override {
    if (completes_without_lock()) return inner_->completed(rq, now);
    bool result = false;
    measured(false, [&] { result = inner_->completed(rq, now); });
    return result;
  }
  [[nodiscard]] sched::DepthLimit limit(const sched::Bio& bio) const override {
    return inner_->limit(bio);
  }
  [[nodiscard]] std::uint32_t default_async_depth(std::uint32_t n) const override {
    return inner_->default_async_depth(n);
  }
  [[nodiscard]] std::uint32_t depth_updated(std::uint32_t n, std::uint32_t async_depth) override {
    return inner_->depth_updated(n, async_depth);
  }
  [[nodiscard]] std::optional<sched::Instant> wake_at() const override { return inner_->wake_at(); }

 private:
  static constexpr unsigned kPairs = 10000;

  template <class Call>
  void measured(bool lookup, Call&& call) {
    const Clock::time_point begin = Clock::now();
    call();
    const std::uint64_t took = ns_since(begin);
    const std::uint64_t ns = took - std::min(took, pair_ns_);
    const auto add = [ns](std::atomic<std::uint64_t>& sum) {
      sum.store(sum.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
    };
    if (lookup) add(spent_.lookups);
    add(spent_.all);
  }

  std::unique_ptr<sched::Elevator> inner_;
  Spent& spent_;
  sched::Limits limits_;
  std::atomic<unsigned> nomerges_{0};
  std::uint64_t pair_ns_ = 0;
};

enum Kind : unsigned { kTried, kWaited, kNone };
constexpr std::array<const char*, 3> kKinds = {"tried", "waited", "no merge"};

template <class T>
std::unique_ptr<sched::Elevator> make() {
  return std::make_unique<T>();
}
struct Scheduler {
  const char* name;
  std::unique_ptr<sched::Elevator> (*make)();
};
constexpr std::array<Scheduler, 2> kSchedulers = {
    Scheduler{"bfq", make<sched::Bfq>}, Scheduler{"mq_deadline", make<sched::MqDeadline>}};

bench::LoopResult run(const Scheduler& scheduler, unsigned threads, Kind kind,
                      std::chrono::milliseconds duration, Spent* spent) {
  bench::ClosedLoop loop;
  loop.name = "bfq_contention";
  loop.threads = threads;
  loop.outstanding = kOutstanding * threads;
  loop.burst = kBurst;
  loop.device_tags = kTags * threads;
  loop.sched_tags = kSchedTags * threads;
  loop.writes = true;
  loop.duration = duration;
  loop.elevator = scheduler.make();
  if (spent != nullptr) loop.elevator = std::make_unique<Timed>(std::move(loop.elevator), *spent);
  loop.prepare = [kind](sched::RequestQueue& queue) {
    if (kind == kWaited) queue.wait_for_bio_merges();
    if (kind == kNone) queue.set_nomerges(2);
  };
  return bench::run_closed_loop(std::move(loop));
}

struct Medians {
  std::array<double, 3> ns{};
  std::array<double, 3> wait_share{};
  double lookup_share = 0;  ///< of the time under the lock
  double skip_share = 0;    ///< of the lookups, where the lock is tried
  bool skipped = false;
};

Medians measure(const Scheduler& scheduler, unsigned threads, const bench::Options& options) {
  std::array<std::vector<double>, 3> ns;
  std::array<std::vector<double>, 3> waits;
  std::vector<double> lookups;
  std::vector<double> skips;
  Medians result;
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (const Kind kind : {kTried, kWaited, kNone}) {
      const bench::LoopResult found = run(scheduler, threads, kind, options.duration, nullptr);
      ns[kind].push_back(found.ns_a_request);
      waits[kind].push_back(found.wait_share);
      if (kind != kTried) continue;
      const std::uint64_t looked =
          found.stats.merge_attempts[static_cast<unsigned>(sched::MergePoint::bio_merge)];
      skips.push_back(static_cast<double>(found.stats.merge_skips) /
                      static_cast<double>(std::max<std::uint64_t>(looked, 1)));
      result.skipped = result.skipped || found.stats.merge_skips != 0;
    }
    Spent spent;
    static_cast<void>(run(scheduler, threads, kWaited, options.duration, &spent));
    lookups.push_back(static_cast<double>(spent.lookups.load()) /
                      static_cast<double>(std::max<std::uint64_t>(spent.all.load(), 1)));
  }
  for (const Kind kind : {kTried, kWaited, kNone}) {
    result.ns[kind] = bench::median(ns[kind]);
    result.wait_share[kind] = bench::median(waits[kind]);
  }
  result.lookup_share = bench::median(lookups);
  result.skip_share = bench::median(skips);
  return result;
}

void report(const char* scheduler, unsigned threads, const Medians& found, std::string& line) {
  constexpr double kNsASecond = 1e9;
  for (const Kind kind : {kTried, kWaited, kNone}) {
    std::printf("%-12s %8u %-9s %10.0f %10.3f\n", scheduler, threads, kKinds[kind],
                kNsASecond / found.ns[kind], found.wait_share[kind]);
  }
  const double gain = found.ns[kWaited] / found.ns[kTried];
  const double allowed = 1 / (1 - found.lookup_share);
  std::printf(
      "  lookups: %.3f of the time under the lock, which allows a gain of %.2f; %.3f left out\n"
      "  tried / waited %.2f, tried / no merge %.2f\n",
      found.lookup_share, allowed, found.skip_share, gain, found.ns[kNone] / found.ns[kTried]);
  std::fflush(stdout);
  const std::string key = std::string(scheduler) + "_" + std::to_string(threads);
  bench::append(line, " %s_gain=%.2f %s_allowed=%.2f", key.c_str(), gain, key.c_str(), allowed);
  bench::append(line, " %s_of_no_merge=%.2f", key.c_str(), found.ns[kNone] / found.ns[kTried]);
  bench::append(line, " %s_wait=%.3f %s_wait_waited=%.3f", key.c_str(), found.wait_share[kTried],
                key.c_str(), found.wait_share[kWaited]);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Options options = bench::parse(argc, argv);
  std::printf("%-12s %8s %-9s %10s %10s\n", "elevator", "threads", "bio merge", "IOPS",
              "wait / CPU");
  std::string line = "bfq_contention";
  bool lone_skipped = false;
  for (const Scheduler& scheduler : kSchedulers) {
    for (const unsigned threads : {1U, 2U, 4U}) {
      const Medians found = measure(scheduler, threads, options);
      report(scheduler.name, threads, found, line);
      lone_skipped = lone_skipped || (threads == 1 && found.skipped);
    }
  }
  std::printf(
      "%s aim_gain=0.9*allowed aim_wait=0.5*wait_waited aim_of_no_merge=0.95 cpus=%u "
      "rounds=%u\n",
      line.c_str(), std::thread::hardware_concurrency(), options.rounds);
  if (lone_skipped) std::fprintf(stderr, "bfq_contention: a lone thread left out a lookup\n");
  return lone_skipped ? 1 : 0;
}
