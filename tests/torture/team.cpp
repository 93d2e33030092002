// SPDX-License-Identifier: Apache-2.0
#include "team.hpp"

#include <algorithm>
#include <cstdio>

#include "device.hpp"
#include "fake_worker.hpp"
#include "sched/bfq.hpp"
#include "sched/kyber.hpp"

namespace elevd::torture {

Team::Team(const Options& the_options) : options(the_options) {
  Random random(options.seed, 0);
  use_no_wait = random.percent(50);
  steady_iostats = random.percent(50);
  for (unsigned i = 0; i < 64; ++i) moods.push_back(make_mood(random, options));
  for (unsigned i = 0; i < options.disks; ++i) {
    auto disk = std::make_unique<Disk>();
    disk->index = i;
    disk->limits = make_limits(random);
    disk->queue = std::make_unique<sched::RequestQueue>(sched::RequestQueue::Options{
        .limits = disk->limits, .queue_depth = options.depth, .workers = options.workers});
    disk->tags_at_device = std::make_unique<std::atomic<bool>[]>(options.depth);
    disk->queue->driver_data = disk.get();
    if (options.elevators && (options.small_rounds || random.percent(60))) {
      auto elevator = make_elevator(random, *disk, !options.small_rounds);
      disk->elevator = elevator.get();
      disk->queue->set_elevator(std::move(elevator));
    }
    queues.push_back(disk->queue.get());
    disks.push_back(std::move(disk));
  }
  peers.resize(options.workers);
  for (unsigned i = 0; i < options.workers; ++i) {
    workers.push_back(std::make_unique<FakeWorker>(i, *this));
    peers[i] = &workers.back()->worker();
    ports.push_back(workers.back().get());
  }
  device = std::make_unique<Device>(options.seed);
  for (auto& disk : disks) disk->freezer = std::make_unique<daemon::Freezer>(*disk->queue, ports);
}

Team::~Team() = default;

void Team::answered_one() {
  answered.fetch_add(1, std::memory_order_relaxed);
  if (unanswered.fetch_sub(1, kTestOrder) != 1) return;
  rounds_done.fetch_add(1, std::memory_order_seq_cst);
  rounds_done.notify_one();
}

void Team::dump() {
  std::printf("round %u, mood %u, unanswered %lld, answered %llu\n", round.load(), mood.load(),
              static_cast<long long>(unanswered.load()),
              static_cast<unsigned long long>(answered.load()));
  for (const auto& disk : disks) {
    sched::RequestQueue& queue = *disk->queue;
    std::printf(
        "disk %u: %s, submitted %llu, answered %llu, inside %llu, frozen %d, runs %u, "
        "restart %d, residual %d, software %llx, refused lately %u\n",
        disk->index, disk->elevator != nullptr ? disk->elevator->name().data() : "none",
        static_cast<unsigned long long>(disk->submitted.load()),
        static_cast<unsigned long long>(disk->answered.load()),
        static_cast<unsigned long long>(queue.inside()), disk->frozen.load() ? 1 : 0,
        sched::QueueTest::runs(queue), sched::QueueTest::restart(queue) ? 1 : 0,
        sched::QueueTest::residual(queue) ? 1 : 0,
        static_cast<unsigned long long>(sched::QueueTest::software_pending(queue)),
        queue.dispatch_busy());
    const sched::TagMap& tags = queue.allocation_tags();
    std::printf(
        "  tags: depth %u, busy %u, wake batch %u, parked %u, waiting %u; hardware: depth "
        "%u, busy %u\n",
        tags.depth(), tags.bitmap().busy(), tags.wake_batch(), tags.parked(), tags.waiting(),
        queue.hardware_tags().depth(), queue.hardware_tags().bitmap().busy());
  }
  for (const auto& worker : workers) worker->dump();
}

namespace {

/// With targets that make it take depth away and give it back, or the usual ones.
std::unique_ptr<sched::Elevator> make_kyber(Random& random) {
  constexpr std::uint64_t kTargets[] = {0, 2'000'000, 1'000'000'000'000};
  auto kyber = std::make_unique<sched::Kyber>();
  for (const auto domain : {sched::KyberDomain::read, sched::KyberDomain::write}) {
    kyber->latency().set_target(domain, kTargets[random.below(3)]);
  }
  return kyber;
}

/// Waits so shortly that a round does not take long.
std::unique_ptr<sched::Elevator> make_bfq(Random& random) {
  auto elevator = std::make_unique<sched::Bfq>();
  sched::BfqTunables tunables;
  tunables.slice_idle_us = random.percent(30) ? 0 : static_cast<unsigned>(random.between(1, 300));
  tunables.max_budget = random.percent(50) ? 0 : static_cast<unsigned>(random.between(1, 64));
  elevator->set_tunables(tunables);
  return elevator;
}

}  // namespace

/// The real ones have timers, which repair what was lost.
std::unique_ptr<sched::Elevator> make_elevator(Random& random, const Disk& disk, bool timers) {
  if (timers && random.percent(40)) return make_kyber(random);
  if (timers && random.percent(40)) return make_bfq(random);
  constexpr unsigned kPercents[] = {100, 75, 50, 25, 1};
  TortureElevator::Options options;
  options.merges = random.percent(70);
  if (random.percent(30)) options.most_out = random.between(1, 4);
  if (timers && random.percent(30)) options.hold = {random.between(1'000, 300'000)};
  options.sync_percent = kPercents[random.below(5)];
  options.async_percent = std::min(options.sync_percent, kPercents[random.below(5)]);
  return std::make_unique<TortureElevator>(options, disk.limits, disk.frozen);
}

sched::Limits make_limits(Random& random) {
  sched::Limits limits;
  limits.logical_block = {kBlockSectors * sched::kSectorBytes};
  limits.physical_block = {random.percent(50) ? 4096U : 8192U};
  limits.max_sectors = {kBlockSectors * random.between(1, 6)};
  limits.max_segments = random.between(1, 4);
  limits.max_segment_size = {random.percent(50) ? 4096U : 65536U};
  limits.chunk = {random.percent(30) ? 32U : 0U};
  limits.max_discard = {random.percent(20) ? 0U : kBlockSectors * random.between(1, 16)};
  limits.max_write_zeroes = {random.percent(20) ? 0U : kBlockSectors * random.between(1, 16)};
  limits.write_back = random.percent(80);
  limits.fua = random.percent(30);
  return limits;
}

Mood make_mood(Random& random, const Options& options) {
  Mood mood;
  // Mostly few; often just more than there are tags, which is where waiting begins.
  const unsigned size = random.below(20);
  const unsigned tags_each = options.depth / options.workers;
  mood.bios = size < 8    ? random.between(1, 4)
              : size < 15 ? tags_each + random.between(1, 8)
              : size < 19 ? random.between(5, 40)
                          : 400;
  mood.burst = random.percent(50) ? random.between(1, 3) : random.between(4, 40);
  mood.disks = random.percent(50) ? 1 : random.between(1, options.disks);
  const unsigned completions = random.below(4);
  mood.inline_done = completions == 0 ? 100 : completions == 1 ? 50 : random.below(20);
  mood.delayed_done = completions == 2 ? 80 : completions == 3 ? 0 : 30;
  mood.elsewhere = random.percent(50) ? 0 : random.between(10, 90);
  mood.refusals = random.percent(60) ? 0 : random.between(5, 50);
  mood.errors = random.percent(70) ? 0 : random.between(1, 20);
  mood.in_ring = random.percent(50) ? 1000 : random.between(1, 8);
  mood.sequential = random.percent(40) ? 0 : random.between(20, 95);
  mood.flushes = random.percent(50) ? 0 : random.between(5, 80);
  mood.odd = random.percent(50) ? 0 : random.between(2, 30);
  constexpr unsigned kInterruptions[] = {0, 50, 200, 1000, 4000, 16000};
  mood.interruptions = kInterruptions[random.below(6)];
  if (options.small_rounds) {
    // Ends of rounds that nothing repairs: no timers, completions mostly by others.
    constexpr unsigned kOften[] = {25, 50, 100, 1000};
    mood.bios = random.between(1, 3);
    mood.inline_done = 0;
    mood.refusals = 0;
    mood.interruptions = kOften[random.below(4)];
  }
  mood.one_class = random.percent(30);
  mood.together = random.percent(60);
  return mood;
}

}  // namespace elevd::torture
