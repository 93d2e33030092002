// SPDX-License-Identifier: Apache-2.0
#include "disk.hpp"

#include <sys/sysinfo.h>

#include <algorithm>
#include <ctime>

#include "pools.hpp"

namespace elevd::daemon {
namespace {

std::uint64_t next_sequence() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

DeviceTiming timing_of(const config::ModelSpec& model) {
  DeviceTiming timing;
  timing.seek = model.kind == config::ModelSpec::Kind::seek;
  timing.service = {model.service.count()};
  timing.parallel = model.parallel;
  timing.sequential = {model.sequential.count()};
  timing.random = {model.random.count()};
  return timing;
}

std::string backing_text(const config::BackingSpec& spec) {
  switch (spec.kind) {
    case config::BackingSpec::Kind::ram:
      return "ram:" + std::to_string(spec.bytes);
    case config::BackingSpec::Kind::null:
      return "null:" + std::to_string(spec.bytes);
    case config::BackingSpec::Kind::path:
      break;
  }
  return spec.path;
}

}  // namespace

unsigned possible_cpus() { return static_cast<unsigned>(get_nprocs_conf()); }

sched::Instant monotonic_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return {std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec};
}

sched::Limits limits_of(const Geometry& geometry) {
  sched::Limits limits;
  limits.logical_block = {geometry.logical_block};
  limits.physical_block = {geometry.physical_block};
  limits.io_min = {geometry.io_min};
  limits.io_opt = {geometry.io_opt};
  limits.rotational = geometry.rotational;
  const sched::Sectors discard{geometry.discard ? geometry.discard_max_bytes / 512 : 0};
  limits.max_discard = discard;
  limits.max_hw_discard = discard;
  limits.discard_granularity = {geometry.discard ? geometry.discard_granularity : 0};
  limits.max_write_zeroes = {geometry.write_zeroes ? geometry.write_zeroes_max_bytes / 512 : 0};
  return limits;
}

/// A store made something dispatchable: a worker, no matter which, runs the queue.
class Disk::RunCommand : public Command {
 public:
  explicit RunCommand(sched::RequestQueue& queue) : queue_(queue) {}
  /// By the control thread. What is on its way already serves this store too.
  void send(WorkerPort& port) {
    if (!on_its_way_.exchange(true)) port.send(*this);
  }
  void execute(sched::Worker& worker) override {
    on_its_way_.store(false);
    queue_.run_later(worker);
  }

 private:
  sched::RequestQueue& queue_;
  std::atomic<bool> on_its_way_{false};
};

Disk::Disk(const config::DiskConfig& config, std::unique_ptr<Backing> backing, unsigned workers,
           unsigned index, sched::Groups& groups)
    : config_(config),
      backing_(std::move(backing)),
      queue_({limits_of(backing_->geometry()),
              config.queue_depth.value_or(config::kDefaultQueueDepth), workers, &groups}),
      write_memory_per_worker_(config.buffer_memory / workers),
      index_(index),
      run_(std::make_unique<RunCommand>(queue_)) {
  queue_.driver_data = this;
  const Geometry& geometry = backing_->geometry();
  facts_.name = config.name;
  facts_.queue = &queue_;
  facts_.now = monotonic_now;
  facts_.run_queue = [this] {
    if (!ports_.empty()) run_->send(*ports_.front());
  };
  facts_.sectors = geometry.bytes / 512;
  facts_.read_only = geometry.read_only;
  facts_.direct_io = geometry.direct;
  facts_.sequence = next_sequence();
  facts_.backing = backing_text(config.backing);
  for (unsigned w = 0; w < workers; ++w) {
    facts_.cpu_list += (w == 0 ? "" : ", ") + std::to_string(w);
  }
  if (config.model.kind != config::ModelSpec::Kind::none) {
    // One more than the hardware tags: a FLUSH borrows one.
    model_ = std::make_unique<ModelledDevice>(timing_of(config.model), queue_.queue_depth() + 1);
    facts_.device_command = [this](std::string_view text) { return command_device(text); };
    facts_.device_state = [this] { return model_->describe(); };
  }
  facts_.read_ahead_kb = sysfs::default_read_ahead_kb(queue_.limits());
}

Disk::~Disk() = default;

/// A worker that sleeps looks at the device when it wakes; a turn more does no harm to another.
int Disk::command_device(std::string_view text) {
  const int error = model_->command(text, monotonic_now());
  if (error == 0 && !ports_.empty()) ports_.front()->wake();
  return error;
}

void Disk::connect(std::span<WorkerPort* const> ports) {
  ports_ = ports;
  freezer_ = std::make_shared<Freezer>(queue_, ports);
}

void Disk::make_connection(std::string path) {
  constexpr std::uint64_t kLeast = 4;
  constexpr std::uint64_t kMost = 256;
  ring_entries_ = static_cast<unsigned>(std::clamp<std::uint64_t>(
      config_.buffer_memory / (possible_cpus() * (kMaxRingPayload + kPage)), kLeast,
      std::max<std::uint64_t>(kMost, queue_.nr_requests())));
  const Geometry& geometry = backing_->geometry();
  connection_ = std::make_unique<DiskConnection>(
      std::move(path), BlockFile{geometry.bytes, geometry.logical_block, geometry.read_only});
}

void Disk::want_range_mode() {
  range_mode_wanted.store(true);
  RangeMode off = RangeMode::off;
  if (range_mode.compare_exchange_strong(off, RangeMode::changing)) turn_on_ranges();
}

unsigned Disk::max_background() const {
  // 16 bits on the wire. Waiters besides the requests, so that the elevator never starves.
  const unsigned wanted =
      2 * std::max({queue_.queue_depth(), queue_.nr_requests(), sched::kMaxSchedulerRequests});
  return std::min(wanted, 32768U);
}

}  // namespace elevd::daemon
