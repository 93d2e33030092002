// SPDX-License-Identifier: Apache-2.0
// The torture test of docs/architecture.md, "Concurrency rules", rule 16: real worker loops between
// fronts that make up bios and rings that make up completions; disks that are frozen and changed
// meanwhile. Exit status: 0 nothing found, 1 something was found, 2 wrong usage.
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "device.hpp"
#include "fake_worker.hpp"
#include "interruption.hpp"
#include "options.hpp"
#include "report.hpp"
#include "steering.hpp"
#include "team.hpp"

namespace elevd::torture {
namespace {

class StopCommand : public daemon::Command {
 public:
  explicit StopCommand(FakeWorker& loop) : loop_(loop) {}
  void execute(sched::Worker&) override { loop_.stop(); }

 private:
  FakeWorker& loop_;
};

/// All bios of the round are answered; the workers that did it are about to leave.
void check_end_of_round(Team& team) {
  for (const auto& disk : team.disks) {
    const std::lock_guard guard(disk->change);
    while (disk->queue->inside() != 0) std::this_thread::yield();
    check_quiet(*disk);
    check(disk->submitted.load() == disk->answered.load(), "answers do not match submissions");
    check(disk->waiters.load() == 0, "a bio is noted as waiting although all are answered");
  }
}

void play_round(Team& team, Random& random) {
  const unsigned mood = random.below(static_cast<unsigned>(team.moods.size()));
  std::vector<unsigned> quotas;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < team.workers.size(); ++i) {
    quotas.push_back(random.one_in(5) ? 0 : random.between(1, team.moods[mood].bios));
    sum += quotas.back();
  }
  if (sum == 0) return;
  const std::uint32_t done = team.rounds_done.load();
  team.mood.store(mood);
  set_interruptions(team.moods[mood].interruptions);
  team.unanswered.store(sum);
  team.arrived.store(0);
  for (std::size_t i = 0; i < team.workers.size(); ++i) team.workers[i]->set_quota(quotas[i]);
  team.round.fetch_add(1);
  team.round.notify_all();
  for (const auto& worker : team.workers) worker->wake_up();
  team.rounds_done.wait(done);
  check_end_of_round(team);
}

void check_sums(const Team& team) {
  std::uint64_t ios = 0;
  std::uint64_t merges = 0;
  for (const auto& disk : team.disks) {
    const sched::Stats stats = disk->queue->stats({0});
    for (const auto group :
         {sched::StatGroup::read, sched::StatGroup::write, sched::StatGroup::discard}) {
      ios += stats.groups[static_cast<unsigned>(group)].ios;
      merges += stats.groups[static_cast<unsigned>(group)].merges;
    }
  }
  if (!team.steady_iostats) return;
  check(ios == team.requests.load() - team.merged_requests.load(),
        "stat counts other requests than there were");
  check(merges == team.merged_bios.load() + team.merged_requests.load(),
        "stat counts other merges than there were");
}

int torture(const Options& options) {
  std::printf(
      "elevd_torture --seed %llu --bios %llu --workers %u --disks %u --depth %u%s%s%s\n",
      static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(options.bios),
      options.workers, options.disks, options.depth, options.elevators ? "" : " --no-elevators",
      options.freezes ? "" : " --no-freezes", options.small_rounds ? " --small-rounds" : "");
  std::fflush(stdout);
  const auto started = std::chrono::steady_clock::now();
  Team team(options);
  prepare_reports(options.seed, [&team] { team.dump(); });
  std::vector<std::thread> threads;
  for (const auto& worker : team.workers) {
    threads.emplace_back([&worker, &options] {
      take_part_in_interruptions(options.seed, worker->worker().index());
      worker->run();
    });
  }
  {
    const Steering steering(team);
    Random random(options.seed, 102);
    while (team.answered.load(std::memory_order_relaxed) < options.bios) play_round(team, random);
  }
  std::vector<std::unique_ptr<StopCommand>> commands;
  for (const auto& worker : team.workers) {
    commands.push_back(std::make_unique<StopCommand>(*worker));
    static_cast<daemon::WorkerPort&>(*worker).send(*commands.back());
  }
  for (std::thread& thread : threads) thread.join();
  check_end_of_round(team);
  check_sums(team);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  std::printf(
      "%llu bios in %u rounds and %.1f s: %llu requests, %llu bios parked, %llu again in "
      "another class, %llu merged, %llu requests merged, %llu changes, %llu cancelled\n",
      static_cast<unsigned long long>(team.answered.load()), team.rounds_done.load(), took.count(),
      static_cast<unsigned long long>(team.requests.load()),
      static_cast<unsigned long long>(team.parks.load()),
      static_cast<unsigned long long>(team.class_changes.load()),
      static_cast<unsigned long long>(team.merged_bios.load()),
      static_cast<unsigned long long>(team.merged_requests.load()),
      static_cast<unsigned long long>(team.changes.load()),
      static_cast<unsigned long long>(team.cancelled.load()));
  return 0;
}

}  // namespace
}  // namespace elevd::torture

int main(int count, char** arguments) {
  return elevd::torture::torture(elevd::torture::parse(count, arguments));
}
