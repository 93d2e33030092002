// SPDX-License-Identifier: Apache-2.0
// plug_merge: what it costs to look for a merge in the plug. One hit (the newest request, as it is
// built) against a scan of the whole plug from the newest, which exists here only, with the same
// test an entry, and against no look at all. Bursts of 32 bios of 4 KiB through gate, plug, tags
// and a device that completes at once, no scheduler, one thread: at random places the plug fills
// with requests that nobody can join; in sequence all 32 join one.
//
// usage: plug_merge [--smoke] [ROUNDS]. Variants take turns; medians.
// docs/spec/plug-and-merge.md 3.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "measure.hpp"
#include "sched/merge.hpp"
#include "sched/request_queue.hpp"

namespace {

using namespace elevd;
using Clock = std::chrono::steady_clock;

constexpr unsigned kBurst = sched::kPlugRequests;
constexpr sched::Sectors kBlock{8};

enum class Look { one_hit, scan, none };
constexpr std::array<const char*, 3> kNames = {"one hit", "scan", "no look"};

class Core : private sched::Driver {
 public:
  explicit Core(Look look) : look_(look), queue_({.limits = {}, .queue_depth = 128, .workers = 1}) {
    peers_[0] = &worker_;
    // The scan below takes the place of the look that is built in.
    if (look != Look::one_hit) queue_.set_nomerges(2);
  }

  void burst(const std::uint64_t* places) {
    for (unsigned n = 0; n < kBurst; ++n) {
      sched::Bio& bio = bios_[n];
      bio.op = sched::Op::read;
      bio.flags = sched::kBioSync;
      bio.start = sched::Sector{places[n]};
      bio.length = kBlock;
      if (look_ == Look::scan && joins(bio)) continue;
      queue_.submit(worker_, bio);
    }
    worker_.flush_plug(false);
    worker_.run_queues();
    while (!worker_.finished.empty()) {
      sched::Bio& bio = worker_.finished.front();
      worker_.finished.pop_front();
      ++answered;
      if (bio.queue == nullptr) continue;  // joined by the scan, it never passed the gate
      static_cast<void>(queue_.leave(worker_));
    }
  }

  std::uint64_t answered = 0;
  std::uint64_t requests = 0;

 private:
  /// The walk over the whole plug that there was before the one-hit look.
  bool joins(sched::Bio& bio) {
    sched::RequestList& plugged = worker_.plug.requests;
    for (auto rq = plugged.rbegin(); rq != plugged.rend(); ++rq) {
      const sched::MergeResult kind = sched::try_merge(limits_, *rq, bio);
      if (kind != sched::MergeResult::back && kind != sched::MergeResult::front) continue;
      bio.queue = nullptr;
      bio.parent = nullptr;
      bio.pending.store(1, std::memory_order_relaxed);
      bio.error.store(0, std::memory_order_relaxed);
      return true;
    }
    return false;
  }

  unsigned budget(sched::RequestQueue&) override { return 1U << 20U; }
  bool issue(sched::Request& rq) override {
    ++requests;
    queue_.complete(worker_, rq, 0);
    return true;
  }

  const Look look_;
  const sched::Limits limits_;
  std::array<sched::Worker*, 1> peers_{};
  sched::Worker worker_{0, peers_, *this};
  sched::RequestQueue queue_;
  std::array<sched::Bio, kBurst> bios_;
};

/// Bios a second.
double run(Core& core, const std::vector<std::uint64_t>& places,
           std::chrono::nanoseconds duration) {
  const std::uint64_t before = core.answered;
  const Clock::time_point begin = Clock::now();
  Clock::time_point end = begin;
  std::size_t at = 0;
  do {
    for (unsigned n = 0; n < 64; ++n) {
      core.burst(places.data() + at);
      at = (at + kBurst) % places.size();
    }
    end = Clock::now();
  } while (end - begin < duration);
  const auto seconds = std::chrono::duration<double>(end - begin).count();
  return static_cast<double>(core.answered - before) / seconds;
}

struct Result {
  std::array<double, 3> iops{};
  std::array<double, 3> merges{};  ///< a bio
};

Result compare(const char* what, const std::vector<std::uint64_t>& places,
               const bench::Options& options) {
  std::array<Core, 3> cores{Core(Look::one_hit), Core(Look::scan), Core(Look::none)};
  std::array<std::vector<double>, 3> iops;
  for (Core& core : cores) run(core, places, options.duration / 5);
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (unsigned v = 0; v < cores.size(); ++v) {
      iops[v].push_back(run(cores[v], places, options.duration));
    }
  }
  Result result;
  for (unsigned v = 0; v < cores.size(); ++v) {
    result.iops[v] = bench::median(iops[v]);
    const auto bios = static_cast<double>(cores[v].answered);
    result.merges[v] = (bios - static_cast<double>(cores[v].requests)) / bios;
    std::printf("%-10s %-8s %6.2f M IOPS, %6.1f ns a bio, %5.1f %% merged\n", what, kNames[v],
                result.iops[v] / 1e6, 1e9 / result.iops[v], 100 * result.merges[v]);
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Options options = bench::parse(argc, argv);
  std::printf(
      "looking for a merge in the plug: bursts of %u bios of 4 KiB, no scheduler, 1 thread\n",
      kBurst);
  const Result random = compare("random", bench::random_places(), options);
  std::vector<std::uint64_t> places(1U << 16U);
  for (std::size_t n = 0; n < places.size(); ++n) places[n] = n * kBlock.value;
  const Result sequence = compare("sequential", places, options);
  // At random a look finds nothing; in sequence the newest one is the right one.
  const bool as_good = sequence.merges[0] >= sequence.merges[1] && sequence.merges[1] > 0.9 &&
                       random.merges[0] < 0.01 && sequence.merges[2] == 0;
  if (!as_good) std::fprintf(stderr, "plug_merge: the variants do not merge what they should\n");
  std::printf(
      "plug_merge one_hit_iops=%.0f scan_iops=%.0f no_look_iops=%.0f ratio=%.2f aim=1.33 "
      "sequential_merged_one_hit=%.4f sequential_merged_scan=%.4f rounds=%u\n",
      random.iops[0], random.iops[1], random.iops[2], random.iops[0] / random.iops[1],
      sequence.merges[0], sequence.merges[1], options.rounds);
  return as_good ? 0 : 1;
}
