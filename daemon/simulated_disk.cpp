// SPDX-License-Identifier: Apache-2.0
#include "simulated_disk.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace elevd::daemon {
namespace {

using sched::Bio;
using sched::Instant;
using sched::Worker;

constexpr std::string_view kName = "sim";
constexpr unsigned kNoLimit = 1U << 20U;

bool waits(const Bio& bio) {
  return bio.link.is_linked() && bio.pending.load(std::memory_order_relaxed) != 0;
}

}  // namespace

SimulatedDisk::SimulatedDisk(const scenario::Scenario& scenario, Listener& listener,
                             sched::TraceSink& trace)
    : listener_(listener), model_(scenario.timing) {
  const unsigned workers = scenario.workers + 1;
  sched::Driver& driver = *this;
  peers_.resize(workers);
  for (unsigned index = 0; index < workers; ++index) {
    workers_.push_back(std::make_unique<Worker>(index, peers_, driver));
    workers_.back()->trace = &trace;
  }
  std::fill(peers_.begin(), peers_.end(), workers_.back().get());
  queue_ = std::make_unique<sched::RequestQueue>(
      sched::RequestQueue::Options{.limits = scenario.facts.limits,
                                   .queue_depth = scenario.facts.depth,
                                   .workers = workers,
                                   .groups = &groups_});
  if (scenario.stalled) model_.stall();
  disk_.name = kName;
  disk_.queue = queue_.get();
  disk_.now = [this] { return now_; };
  disk_.run_queue = [this] { queue_->run_later(*workers_.back()); };
  disk_.sectors = scenario.facts.size.value / sched::kSectorBytes;
  disk_.backing = "simulated";
  disk_.cpu_list = std::string(1, '0');  // GCC 12 warns of an assigned literal
  disk_.read_ahead_kb = sysfs::default_read_ahead_kb(scenario.facts.limits);
  [[maybe_unused]] const int added = tree_.add_disk(disk_);
}

SimulatedDisk::~SimulatedDisk() { tree_.remove_disk(kName); }

void SimulatedDisk::set_now(Instant now) {
  now_ = now;
  for (const auto& worker : workers_) worker->now = now;
}

// --- Bios -------------------------------------------------------------------------------------

bool SimulatedDisk::submit(unsigned worker, Bio& bio) {
  queue_->submit(*workers_[worker], bio);
  const bool parked = waits(bio);
  settle();
  return parked;
}

bool SimulatedDisk::resume(unsigned worker, Bio& bio) {
  queue_->resume(*workers_[worker], bio);
  const bool parked = waits(bio);
  settle();
  return parked;
}

void SimulatedDisk::end_plug(unsigned worker, bool sleeps) {
  workers_[worker]->flush_plug(sleeps);
  settle();
}

/// Runs what is to be run, then tells who was woken or answered.
void SimulatedDisk::settle() {
  for (bool again = true; again;) {
    again = false;
    for (const auto& worker : workers_) {
      if (worker->runs.empty()) continue;
      worker->run_queues();
      again = true;
    }
  }
  collect();
  apply_changes();
}

void SimulatedDisk::collect() {
  for (const auto& worker : workers_) {
    while (!worker->woken.empty()) {
      Bio& bio = worker->woken.front();
      worker->woken.pop_front();
      listener_.bio_woken(bio);
    }
  }
  for (sched::MailNode* node = workers_.back()->mailbox.take(); node != nullptr;) {
    sched::MailNode* const next = node->next;
    listener_.bio_woken(sched::bio_of(*node));
    node = next;
  }
  for (const auto& worker : workers_) {
    while (!worker->finished.empty()) {
      Bio& bio = worker->finished.front();
      worker->finished.pop_front();
      listener_.bio_finished(bio);
      [[maybe_unused]] const bool gate_is_closed = queue_->leave(*worker);  // the gate is ours
    }
  }
}

sched::GroupId SimulatedDisk::make_group(std::string_view path, std::uint32_t weight) {
  const sched::GroupId id = groups_.id(path);
  queue_->with_group_weights([&](sched::GroupWeights& weights) {
    weights.set(id, weight);
    return true;
  });
  return id;
}

// --- The device -------------------------------------------------------------------------------

unsigned SimulatedDisk::budget(sched::RequestQueue&) { return kNoLimit; }

bool SimulatedDisk::issue(sched::Request& rq) {
  if (free_entries_.empty()) free_entries_.push_back(&entries_.emplace_back());
  DeviceEntry& entry = *free_entries_.back();
  free_entries_.pop_back();
  entry.op = rq.op;
  entry.start = rq.start;
  entry.length = rq.length;
  entry.owner = &rq;
  model_.add(entry, now_);
  return true;
}

void SimulatedDisk::complete(DeviceEntry& entry) {
  auto& rq = *static_cast<sched::Request*>(entry.owner);
  free_entries_.push_back(&entry);
  Worker& device = *workers_.back();
  queue_->complete(device, rq, 0);
  queue_->run_later(device);
  settle();
}

bool SimulatedDisk::complete_due() {
  DeviceEntry* const entry = model_.take_due(now_);
  if (entry == nullptr) return false;
  complete(*entry);
  return true;
}

bool SimulatedDisk::release_one() {
  DeviceEntry* const entry = model_.take_oldest(now_);
  if (entry == nullptr) return false;
  complete(*entry);
  return true;
}

void SimulatedDisk::unquiesce() {
  queue_->unquiesce(*workers_.back());
  settle();
}

/// When the elevator wants to be asked; none if it was asked for that already.
std::optional<Instant> SimulatedDisk::timer() const {
  if (queue_->quiesced()) return std::nullopt;
  const auto at = queue_->wake_at();
  return at == served_timer_ ? std::nullopt : at;
}

std::optional<Instant> SimulatedDisk::next_event() const {
  const auto due = model_.next_due();
  const auto at = timer();
  if (!due || !at) return due ? due : at;
  return std::min(*due, *at);
}

bool SimulatedDisk::run_timer() {
  const auto at = timer();
  if (!at || now_ < *at) return false;
  served_timer_ = at;
  queue_->run(*workers_.back());
  settle();
  return true;
}

// --- Files ------------------------------------------------------------------------------------

sysfs::Inode SimulatedDisk::find(std::string_view path) const {
  sysfs::Inode at = sysfs::kRootInode;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const auto node = tree_.lookup(at, path.substr(0, end));
    if (!node) return 0;
    at = node->inode;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return at;
}

int SimulatedDisk::store(std::string_view attribute, std::string_view value, unsigned line) {
  const sysfs::Inode file = find(std::string("block/sim/queue/").append(attribute));
  if (file == 0) return ENOENT;
  if (const int error = tree_.check_open(file, false, true); error != 0) return error;
  sysfs::Outcome outcome = tree_.store(file, value);
  if (const auto* refused = std::get_if<sysfs::Refused>(&outcome)) return refused->error;
  auto* const change = std::get_if<sysfs::Change>(&outcome);
  if (change == nullptr) {
    settle();  // the store may have the queue run
    return 0;
  }
  for (const PendingChange& pending : changes_) {
    if (sysfs::refuses(pending.change.kind, change->kind)) return EBUSY;
  }
  changes_.push_back({std::move(*change), std::string(attribute), line});
  settle();
  return 0;
}

/// Each in turn, when nobody is inside; then the gate opens.
void SimulatedDisk::apply_changes() {
  if (changes_.empty() || queue_->inside() != 0) return;
  while (!changes_.empty()) {
    const PendingChange pending = std::move(changes_.front());
    changes_.pop_front();
    const int error = sysfs::carry_out(pending.change);
    if (error != 0 && !change_error_) {
      change_error_ = ChangeError{pending.line, pending.attribute, error};
    }
  }
  served_timer_.reset();
  listener_.gate_opened();
}

tl::expected<std::string, int> SimulatedDisk::show(std::string_view file) const {
  struct Place {
    std::string_view prefix, directory;
  };
  constexpr std::array<Place, 3> kPlaces = {
      {{"debug/", "kernel/debug/block/sim/"}, {"disk/", "block/sim/"}, {"", "block/sim/queue/"}}};
  const auto place = std::find_if(kPlaces.begin(), kPlaces.end(), [file](const Place& known) {
    return file.starts_with(known.prefix);
  });
  const sysfs::Inode inode =
      find(std::string(place->directory).append(file.substr(place->prefix.size())));
  if (inode == 0) return tl::unexpected(ENOENT);
  if (const int error = tree_.check_open(inode, true, false); error != 0) {
    return tl::unexpected(error);
  }
  return tree_.show(inode);
}

}  // namespace elevd::daemon
