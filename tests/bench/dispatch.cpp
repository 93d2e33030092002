// SPDX-License-Identifier: Apache-2.0
// dispatch: nanoseconds a request takes of the core: gate, merge look-up, tag, plug, insertion, run
// queue, hardware tag, completion, answer. A closed loop of reads of 4 KiB at random places that
// nobody can join, with 1, 16, 256 or 2048 outstanding, in bursts of 16, on a device that completes
// what it has in the order it came: for none, which gives it all of them, and for the others with
// 16 hardware tags a thread, which keep the rest. A thread is an issuer. With 1 and 2 threads; for
// 2 it is the time of the machine, not of a thread. Then bfq with 256 outstanding of 8 issuers on
// one thread, all in one group, or in 2 or 8 of them: what a group costs.
//
// usage: dispatch [--smoke] [ROUNDS]. Schedulers take turns; medians. docs/architecture.md "The way
// of one write".
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "closed_loop.hpp"
#include "measure.hpp"
#include "sched/bfq.hpp"
#include "sched/kyber.hpp"
#include "sched/mq_deadline.hpp"

namespace {

using namespace elevd;

constexpr unsigned kBurst = 16;
constexpr std::array<unsigned, 4> kOutstanding = {1, 16, 256, 2048};

template <class T>
std::unique_ptr<sched::Elevator> make() {
  return std::make_unique<T>();
}

struct Scheduler {
  const char* name;                            ///< as a key of the last line
  std::unique_ptr<sched::Elevator> (*make)();  ///< null: none
  double aim_ns;                               ///< at 256 outstanding, one thread
};
constexpr std::array<Scheduler, 4> kSchedulers = {
    Scheduler{"none", nullptr, 135},
    Scheduler{"mq_deadline", make<sched::MqDeadline>, 300},
    Scheduler{"kyber", make<sched::Kyber>, 300},
    Scheduler{"bfq", make<sched::Bfq>, 700},
};

struct Case {
  const Scheduler* scheduler = nullptr;
  unsigned outstanding = 1;
  unsigned threads = 1;
  unsigned issuers = 1;
  unsigned groups = 0;

  [[nodiscard]] std::string name() const {
    if (groups != 0) return std::string(scheduler->name) + "_groups_" + std::to_string(groups);
    return std::string(scheduler->name) + "_" + std::to_string(outstanding) + "_" +
           std::to_string(threads);
  }
};

/// Nanoseconds a request.
double run(const Case& what, std::chrono::milliseconds duration) {
  const bool keeps = what.scheduler->make != nullptr;
  bench::ClosedLoop loop;
  loop.name = "dispatch: " + what.name();
  loop.threads = what.threads;
  loop.issuers = what.issuers;
  loop.groups = what.groups;
  loop.outstanding = what.outstanding;
  loop.burst = kBurst;
  loop.device_tags = keeps ? std::min(kBurst * what.threads, what.outstanding) : what.outstanding;
  loop.duration = duration;
  if (keeps) loop.elevator = what.scheduler->make();
  return bench::run_closed_loop(std::move(loop)).ns_a_request;
}

/// The cost of groups; appends to `line`.
void run_groups(const bench::Options& options, std::string& line) {
  constexpr unsigned kIssuers = 8;
  constexpr std::array<unsigned, 3> kGroups = {1, 2, 8};
  std::array<std::vector<double>, kGroups.size()> taken;
  const auto case_of = [&](std::size_t g) {
    return Case{&kSchedulers.back(), 256, 1, kIssuers, kGroups[g]};
  };
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (std::size_t g = 0; g < kGroups.size(); ++g)
      taken[g].push_back(run(case_of(g), options.duration));
  }
  std::printf("bfq, 1 thread, 256 outstanding of %u issuers in 1, 2 and 8 groups:", kIssuers);
  for (std::size_t g = 0; g < kGroups.size(); ++g) {
    const double ns = bench::median(taken[g]);
    std::printf(" %.1f", ns);
    bench::append(line, " %s=%.1f", case_of(g).name().c_str(), ns);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::size_t kCount = kSchedulers.size();
  const bench::Options options = bench::parse(argc, argv);
  std::printf("ns a request through the core, reads of 4 KiB at random places, bursts of %u\n",
              kBurst);
  std::printf("%8s %12s", "threads", "outstanding");
  for (const Scheduler& scheduler : kSchedulers) std::printf(" %12s", scheduler.name);
  std::printf("\n");
  std::string line = "dispatch";
  std::array<std::array<double, kCount>, kOutstanding.size()> alone{};
  for (const unsigned threads : {1U, 2U}) {
    for (std::size_t size = 0; size < kOutstanding.size(); ++size) {
      std::array<Case, kCount> cases{};
      for (std::size_t c = 0; c < kCount; ++c) {
        cases[c] = {&kSchedulers[c], kOutstanding[size], threads};
      }
      std::array<std::vector<double>, kCount> taken;
      for (unsigned round = 0; round < options.rounds; ++round) {
        for (std::size_t c = 0; c < kCount; ++c)
          taken[c].push_back(run(cases[c], options.duration));
      }
      std::printf("%8u %12u", threads, kOutstanding[size]);
      for (std::size_t c = 0; c < kCount; ++c) {
        const double ns = bench::median(taken[c]);
        std::printf(" %12.1f", ns);
        if (threads == 1) alone[size][c] = ns;
        bench::append(line, " %s=%.1f", cases[c].name().c_str(), ns);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  run_groups(options, line);
  for (std::size_t c = 0; c < kCount; ++c) {
    bench::append(line, " %s_growth_256_to_2048=%.2f aim_%s_256=%.0f", kSchedulers[c].name,
                  alone[3][c] / alone[2][c], kSchedulers[c].name, kSchedulers[c].aim_ns);
  }
  std::printf("%s aim_growth=1.50 rounds=%u\n", line.c_str(), options.rounds);
  return 0;
}
