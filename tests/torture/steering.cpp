// SPDX-License-Identifier: Apache-2.0
#include "steering.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "fake_worker.hpp"
#include "sched/bfq.hpp"
#include "sched/kyber.hpp"

namespace elevd::torture {
namespace {

constexpr std::chrono::milliseconds kLookEvery{250};
/// A state that must not last: a sleep with mail, a parked bio beside nothing in flight.
constexpr unsigned kLooksUntilStuck = 20;

sched::Instant steady_now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(since).count()};
}

}  // namespace

void check_quiet(Disk& disk) {
  sched::RequestQueue& queue = *disk.queue;
  const sched::TagMap& tags = queue.allocation_tags();
  check(tags.bitmap().busy() == 0, "a tag is busy although nothing is inside");
  check(queue.hardware_tags().bitmap().busy() == 0,
        "a hardware tag is busy although nothing is inside");
  check(tags.parked() == 0 && tags.waiting() == 0, "a bio waits although nothing is inside");
  check(queue.idle(), "something is queued although nothing is inside");
  const sched::Stats stats = queue.stats(steady_now());
  check(stats.in_flight == 0, "stat has requests in flight although nothing is inside");
  check(stats.at_driver[0] == 0 && stats.at_driver[1] == 0,
        "stat has requests at the driver although nothing is inside");
}

Steering::Steering(Team& team) : team_(team) {
  keeper_ = std::thread([this] { keep(); });
  reader_ = std::thread([this] { read(); });
  watchdog_ = std::thread([this] { watch(); });
}

Steering::~Steering() {
  stopping_.store(true);
  team_.round.fetch_add(1);
  team_.round.notify_all();
  keeper_.join();
  reader_.join();
  { const std::lock_guard guard(mutex_); }
  stop_watching_.notify_one();
  watchdog_.join();
}

bool Steering::next_round(std::uint32_t& seen) const {
  team_.round.wait(seen);
  seen = team_.round.load();
  return !stopping_.load();
}

// --- The keeper -------------------------------------------------------------------------------

void Steering::keep() {
  Random random(team_.options.seed, 100);
  std::uint32_t round = 0;
  while (next_round(round)) {
    if (!team_.options.freezes || !random.one_in(team_.options.small_rounds ? 64 : 8)) continue;
    for (unsigned n = random.between(1, 3); n > 0; --n) {
      for (unsigned spins = random.below(20'000); spins > 0; --spins) sched::cpu_relax();
      change(random, *team_.disks[random.below(team_.options.disks)]);
    }
  }
}

void Steering::change(Random& random, Disk& disk) {
  cancel_.store(false);
  changing_.store(&disk);
  const bool frozen = disk.freezer->freeze(cancel_);
  changing_.store(nullptr);
  if (!frozen) {
    team_.cancelled.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  {
    const std::lock_guard guard(disk.change);
    disk.frozen.store(true, kTestOrder);
    check_frozen(disk);
    apply(random, disk);
    for (unsigned spins = random.below(5'000); spins > 0; --spins) sched::cpu_relax();
    check_frozen(disk);
    disk.frozen.store(false, kTestOrder);
  }
  disk.freezer->thaw();
  team_.changes.fetch_add(1, std::memory_order_relaxed);
}

void Steering::check_frozen(Disk& disk) {
  // A bio that does not wait passes a closed gate to be refused, and counts as inside meanwhile.
  if (!team_.use_no_wait) check(disk.queue->inside() == 0, "a bio is inside a frozen queue");
  check_quiet(disk);
}

void Steering::apply(Random& random, Disk& disk) {
  sched::RequestQueue& queue = *disk.queue;
  const unsigned what = random.below(team_.options.elevators ? 4 : 2);
  if (what == 0) {
    disk.limits = make_limits(random);
    queue.set_limits(disk.limits);
    if (auto* own = dynamic_cast<TortureElevator*>(disk.elevator)) own->set_limits(disk.limits);
    return;
  }
  if (what >= 2) {
    auto elevator =
        random.percent(70) ? make_elevator(random, disk, !team_.options.small_rounds) : nullptr;
    disk.elevator = elevator.get();
    queue.set_elevator(std::move(elevator));
    check(queue.scheduler() == (disk.elevator != nullptr ? disk.elevator->name() : "none"),
          "the scheduler is not the one that was set");
    if (random.percent(30)) return;
  }
  const std::uint32_t most = std::min(queue.max_requests(), 3 * team_.options.depth);
  if (most < sched::kMinRequests) return;
  const std::uint32_t n =
      random.percent(50) ? sched::kMinRequests : random.between(sched::kMinRequests, most);
  queue.set_nr_requests(n);
  check(queue.nr_requests() == n && queue.allocation_tags().depth() == n,
        "nr_requests is not what was set");
}

// --- The reader -------------------------------------------------------------------------------

void Steering::read() {
  Random random(team_.options.seed, 101);
  std::uint32_t round = 0;
  while (next_round(round)) {
    if (!random.one_in(4)) continue;
    for (unsigned n = random.between(1, 8); n > 0; --n) {
      read_disk(random, *team_.disks[random.below(team_.options.disks)]);
      Disk* changing = changing_.load();
      if (changing != nullptr && random.percent(30)) {
        cancel_.store(true);
        changing->freezer->signal();
      }
    }
  }
}

void Steering::read_disk(Random& random, Disk& disk) {
  sched::RequestQueue& queue = *disk.queue;
  const sched::Stats stats = queue.stats(steady_now());
  const std::uint64_t at_most = std::uint64_t{queue.queue_depth()} + sched::kMaxSchedulerRequests;
  check(stats.in_flight <= 64 * at_most, "stat has more requests in flight than there are tags");
  check(queue.inside() <= team_.workers.size() * 200, "more bios are inside than there are");
  const std::string_view scheduler = queue.scheduler();
  check(scheduler == "none" || scheduler == "torture" || scheduler == sched::Bfq::kName ||
            scheduler == sched::Kyber::kName,
        "a scheduler that nobody set");
  check(queue.limits().logical_block.value == kBlockSectors * sched::kSectorBytes,
        "limits that nobody set");
  check(queue.nr_requests() >= 1 && queue.async_depth() >= 1, "a depth of nothing");
  sched::TagMap& tags = queue.hardware_tags();
  check(tags.parked() <= 64 * 200 && tags.waiting() <= 64 * 200, "more bios wait than there are");
  static_cast<void>(tags.queue_active(random.below(sched::TagMap::kWaitQueues)));
  {
    // Which map is used may be asked only while nobody changes it.
    const std::unique_lock lock(disk.change, std::try_to_lock);
    if (lock.owns_lock()) {
      sched::TagMap& allocation = queue.allocation_tags();
      check(allocation.bitmap().busy() <= allocation.depth(), "more tags are busy than there are");
      static_cast<void>(allocation.queue_active(random.below(sched::TagMap::kWaitQueues)));
      static_cast<void>(allocation.parked() + allocation.wake_index());
    }
  }
  if (random.one_in(8)) queue.set_nomerges(random.below(3));
  if (!team_.steady_iostats && random.one_in(8)) queue.set_iostats(random.percent(50));
}

// --- The watchdog -----------------------------------------------------------------------------

struct Steering::Watched {
  std::uint64_t answered = 0;
  unsigned looks_without_answer = 0;
  struct Sleeper {
    std::uint64_t number = 0;
    unsigned looks_with_mail = 0;
  };
  std::vector<Sleeper> sleepers;
  struct Parked {
    std::uint64_t answered = 0;
    unsigned looks = 0;
  };
  std::vector<Parked> parked;
};

void Steering::watch() {
  Watched watched;
  watched.sleepers.resize(team_.workers.size());
  watched.parked.resize(team_.disks.size());
  unsigned looks = 0;
  std::unique_lock lock(mutex_);
  while (!stop_watching_.wait_for(lock, kLookEvery, [this] { return stopping_.load(); })) {
    look(watched);
    if (team_.options.verbose && ++looks % 4 == 0) {
      std::printf("round %u: %llu bios answered, %llu parked, %llu changes, %llu cancelled\n",
                  team_.round.load(), static_cast<unsigned long long>(team_.answered.load()),
                  static_cast<unsigned long long>(team_.parks.load()),
                  static_cast<unsigned long long>(team_.changes.load()),
                  static_cast<unsigned long long>(team_.cancelled.load()));
    }
  }
}

void Steering::look(Watched& watched) {
  const std::uint64_t answered = team_.answered.load(std::memory_order_relaxed);
  if (answered != watched.answered) watched.looks_without_answer = 0;
  watched.answered = answered;
  ++watched.looks_without_answer;
  for (std::size_t i = 0; i < team_.workers.size(); ++i) {
    FakeWorker& worker = *team_.workers[i];
    Watched::Sleeper& sleeper = watched.sleepers[i];
    const std::uint64_t number = worker.sleep_number();
    const bool stuck = number != 0 && number == sleeper.number && !worker.worker().mailbox.empty();
    sleeper.looks_with_mail = stuck ? sleeper.looks_with_mail + 1 : 0;
    sleeper.number = number;
    if (sleeper.looks_with_mail >= kLooksUntilStuck) {
      fail("worker %zu sleeps although there is mail in its mailbox", i);
    }
  }
  for (std::size_t i = 0; i < team_.disks.size(); ++i) {
    Disk& disk = *team_.disks[i];
    Watched::Parked& parked = watched.parked[i];
    const std::unique_lock lock(disk.change, std::try_to_lock);
    if (!lock.owns_lock()) continue;
    const sched::TagMap& tags = disk.queue->allocation_tags();
    const std::uint64_t disk_answered = disk.answered.load(std::memory_order_relaxed);
    const bool stuck = tags.parked() != 0 && tags.waiting() == tags.parked() &&
                       tags.bitmap().busy() == 0 && disk_answered == parked.answered;
    parked.looks = stuck ? parked.looks + 1 : 0;
    parked.answered = disk_answered;
    if (parked.looks >= kLooksUntilStuck) {
      fail("a bio is parked on disk %zu although nothing is in flight there", i);
    }
  }
  const auto waited = watched.looks_without_answer * kLookEvery;
  if (waited >= std::chrono::seconds(team_.options.patience)) {
    fail("no bio was answered for %u seconds", team_.options.patience);
  }
}

}  // namespace elevd::torture
