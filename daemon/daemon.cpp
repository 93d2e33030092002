// SPDX-License-Identifier: Apache-2.0
#include "daemon.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <system_error>

#include "log.hpp"
#include "mounts.hpp"
#include "sysfs/group_weights.hpp"

namespace elevd::daemon {
namespace {

constexpr unsigned kMaxDefaultWorkers = 8;
constexpr unsigned kMinOperations = 64;
constexpr unsigned kMaxOperations = 32768;
constexpr std::chrono::milliseconds kBusyRetry{1000};
constexpr int kLookMs = 10;  // how often a stop looks whether something is over
constexpr int kRangeLookMs = 1000;
constexpr std::chrono::seconds kStatusEvery{1};
constexpr std::chrono::seconds kStopMargin{30};  // unmounting and the last flush
constexpr sched::Duration kRangeModeTime{10'000'000'000};

using Clock = std::chrono::steady_clock;

unsigned default_workers() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  unsigned n = 1;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) n = static_cast<unsigned>(CPU_COUNT(&cpus));
  return std::clamp(n, 1U, kMaxDefaultWorkers);
}

BackingOptions backing_options(const config::DiskConfig& disk, const std::string& directory) {
  BackingOptions options;
  switch (disk.backing.kind) {
    case config::BackingSpec::Kind::path:
      options.source = BackingSource::path;
      break;
    case config::BackingSpec::Kind::ram:
      options.source = BackingSource::ram;
      break;
    case config::BackingSpec::Kind::null:
      options.source = BackingSource::null;
      break;
  }
  options.path = disk.backing.path;
  options.bytes = disk.backing.bytes;
  options.read_only = disk.read_only;
  options.logical_block_size = disk.logical_block_size.value_or(0);
  options.directory = directory;
  return options;
}

/// A call made in every worker, and the wait for its end.
class CallCommand : public Command {
 public:
  CallCommand(const std::function<void(IoWorker&)>& call, WorkerTeam& team,
              std::atomic<unsigned>& left)
      : call_(call), team_(team), left_(left) {}
  void execute(sched::Worker& worker) override {
    call_(*team_.io_workers[worker.index()]);
    std::atomic<unsigned>& left = left_;
    left.fetch_sub(1);
    left.notify_one();
  }

 private:
  const std::function<void(IoWorker&)>& call_;
  WorkerTeam& team_;
  std::atomic<unsigned>& left_;
};

}  // namespace

Daemon::Daemon(config::DaemonConfig config) : config_(std::move(config)) {}

/// Also the way back from a start that failed halfway.
Daemon::~Daemon() {
  if (control_) control_->stop();
  for (Served& served : disks_) {
    if (served.keeper) served.keeper->stop();
    if (served.mounted) unmount(served.disk->connection().path(), true);
  }
  stop_workers();
  control_.reset();
  disks_.clear();
  directory_.reset();
}

// --- Start ------------------------------------------------------------------------------------

Result<void> Daemon::start() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  signals_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  events_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!signals_ || !events_) return tl::unexpected(Error{errno, "cannot make descriptors"});
  if (config_.workers == 0) config_.workers = default_workers();
  auto directory = Directory::take(config_.directory);
  if (!directory) return tl::unexpected(directory.error());
  directory_.emplace(std::move(*directory));
  if (auto done = open_disks(); !done) return done;
  if (auto done = mount_disks(); !done) return done;
  if (auto done = start_workers(); !done) return done;
  if (auto done = start_control(); !done) return done;
  ask_attributes();
  log_ready();
  return {};
}

Result<void> Daemon::open_disks() {
  for (const config::DiskConfig& disk : config_.disks) {
    auto backing = open_backing(backing_options(disk, directory_->path()));
    if (!backing) {
      Error error = backing.error();
      error.what = disk.name + ": " + error.what;
      return tl::unexpected(error);
    }
    log(Level::info, "{}: {}", disk.name, (*backing)->geometry().description);
    const auto index = static_cast<unsigned>(disks_.size());
    Served& served = disks_.emplace_back();
    served.disk =
        std::make_unique<Disk>(disk, std::move(*backing), config_.workers, index, groups_);
    if (tree_.add_disk(served.disk->facts()) != 0) {
      return tl::unexpected(Error{EEXIST, disk.name + ": there is a disk of that name already"});
    }
    if (auto done = apply_group_weights(*served.disk); !done) return done;
    if (auto done = apply_attributes(served); !done) return done;
  }
  return {};
}

Result<void> Daemon::apply_group_weights(Disk& disk) {
  for (const config::Attribute& weight : disk.config().group_weights) {
    const int error =
        sysfs::store_group_weight(disk.facts(), fmt::format("{} {}", weight.path, weight.text));
    if (error == 0) continue;
    return tl::unexpected(Error{error,
                                fmt::format("{}: group_weights: {} = {}: {}", weight.origin,
                                            weight.path, weight.text, std::strerror(error)),
                                kExitUsage});
  }
  return {};
}

/// The same store code as the mounted tree; nothing is inside yet, so a change is made at once.
Result<void> Daemon::apply_attributes(Served& served) {
  config::DiskConfig wanted = served.disk->config();
  if (!wanted.scheduler) {
    wanted.scheduler = std::string(sysfs::default_scheduler());
    wanted.scheduler_origin = "default";
  }
  for (const config::Attribute& attribute : config::ordered_attributes(wanted)) {
    sysfs::Inode at = sysfs::kRootInode;
    int error = 0;
    const std::string path = "block/" + served.disk->name() + "/queue/" + attribute.path;
    for (std::size_t begin = 0; begin <= path.size() && error == 0;) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      const auto found = tree_.lookup(at, path.substr(begin, end - begin));
      if (found) {
        at = found->inode;
      } else {
        error = found.error();
      }
      begin = end + 1;
    }
    if (error == 0) {
      const sysfs::Outcome outcome = tree_.store(at, attribute.text);
      if (const auto* refused = std::get_if<sysfs::Refused>(&outcome)) error = refused->error;
      if (const auto* change = std::get_if<sysfs::Change>(&outcome)) error = carry_out(*change);
    }
    if (error != 0) {
      // What the configuration may name exists, unless it is of another scheduler.
      const std::string why = error == ENOENT
                                  ? "the scheduler " + *wanted.scheduler + " has no such attribute"
                                  : std::strerror(error);
      return tl::unexpected(
          Error{error,
                fmt::format("{}: {}={}: {}", attribute.origin, attribute.path, attribute.text, why),
                kExitUsage});
    }
  }
  return {};
}

/// The ring transport cannot be had: an error only for who insists.
Result<void> Daemon::refused_uring(const std::string& why) const {
  if (config_.transport == config::Transport::uring) {
    return tl::unexpected(Error{ENOSYS, "transport uring: " + why, kExitDirectory});
  }
  log(Level::notice, "transport dev, not uring: {}", why);
  return {};
}

Result<void> Daemon::mount_disks() {
  bool uring = config_.transport != config::Transport::dev;
  if (uring) {
    const UringOffer offer = look_for_uring();
    uring = offer.offered;
    if (!uring) {
      if (auto done = refused_uring(offer.reason); !done) return done;
    }
  }
  for (Served& served : disks_) {
    auto path = directory_->make_disk_file(served.disk->name());
    if (!path) return tl::unexpected(path.error());
    served.disk->make_connection(*path);
    DiskConnection& connection = served.disk->connection();
    if (auto done = connection.mount(served.disk->max_background(), uring); !done) return done;
    served.mounted = true;
    if (uring && !connection.uses_uring()) {
      if (auto done = refused_uring("the kernel does not offer it for " + *path); !done)
        return done;
    }
  }
  return {};
}

Result<void> Daemon::start_workers() {
  unsigned depths = 0;
  for (const Served& served : disks_) depths += served.disk->queue().queue_depth() + 1;
  team_.operations = std::clamp(depths, kMinOperations, kMaxOperations);
  team_.busy_poll = {config_.busy_poll.count()};
  team_.disks = static_cast<unsigned>(disks_.size());
  for (const Served& served : disks_) {
    if (!served.disk->connection().uses_uring()) continue;
    const auto queues = queues_of_worker(0, config_.workers, possible_cpus()).size();
    team_.ring_entries += static_cast<unsigned>(queues) * served.disk->ring_entries();
  }
  team_.workers.resize(config_.workers);
  team_.groups = &group_finder_;
  team_.connection_gone = [this](Disk&) { tell_main(); };
  for (unsigned w = 0; w < config_.workers; ++w) {
    workers_.push_back(std::make_unique<IoWorker>(w, team_));
    team_.workers[w] = &workers_.back()->worker();
    team_.io_workers.push_back(workers_.back().get());
    team_.ports.push_back(workers_.back().get());
  }
  for (Served& served : disks_) {
    served.disk->connect(team_.ports);
    served.keeper = std::make_unique<Keeper>(served.disk->shared_freezer());
    served.disk->turn_on_ranges = [this, &served] {
      served.keeper->post([this, &disk = *served.disk] { turn_on_ranges(disk); });
    };
  }
  if (auto done = start_threads(); !done) return done;
  for (Served& served : disks_) {
    call_on_workers([&disk = *served.disk](IoWorker& worker) { worker.add_disk(disk); });
  }
  return {};
}

/// Returns when every worker serves or has failed to.
Result<void> Daemon::start_threads() {
  std::atomic<unsigned> starting{config_.workers};
  std::mutex mutex;
  std::string failure;
  const auto fail = [&mutex, &failure](const char* failed) {
    const std::lock_guard guard(mutex);
    failure = failed;
  };
  for (auto& owned : workers_) {
    const auto serve = [this, &starting, &mutex, &fail, &worker = *owned] {
      worker.serve([&](const char* failed) {
        if (failed != nullptr) {
          fail(failed);
        } else {
          const std::lock_guard guard(mutex);
          serving_.push_back(&worker);
        }
        starting.fetch_sub(1);
        starting.notify_one();
      });
    };
    try {
      threads_.emplace_back(serve);
    } catch (const std::system_error& error) {
      fail(error.what());
      starting.fetch_sub(config_.workers - static_cast<unsigned>(threads_.size()));
      break;
    }
  }
  for (unsigned left = starting.load(); left != 0; left = starting.load()) starting.wait(left);
  if (!failure.empty()) return tl::unexpected(Error{EIO, "cannot start the workers: " + failure});
  return {};
}

Result<void> Daemon::start_control() {
  auto control = Control::start(directory_->control_path(), tree_, *this,
                                [this] {
                                  control_gone_.store(true);
                                  tell_main();
                                },
                                {group_finder_.descriptor(), [this] { group_finder_.find(); }});
  if (!control) return tl::unexpected(control.error());
  control_ = std::move(*control);
  return {};
}

/// Asks once for what `ls -l` wants to know, so that the kernel has the answers even when a disk
/// stalls (docs/architecture.md "Connections and threads").
void Daemon::ask_attributes() {
  for (const Served& served : disks_) {
    const char* path = served.disk->connection().path().c_str();
    struct stat st {};
    std::array<char, 16> value{};
    if (lstat(path, &st) != 0) {
      log(Level::warning, "{}: {}", path, std::strerror(errno));
    }
    // ENOSYS is remembered by the kernel: it never asks again.
    [[maybe_unused]] ssize_t n = lgetxattr(path, "security.capability", value.data(), value.size());
    n = llistxattr(path, value.data(), value.size());
  }
}

void Daemon::log_ready() {
  for (Served& served : disks_) {
    Disk& disk = *served.disk;
    log(Level::info, "{}: {} bytes at {}, scheduler {}, transport {}", disk.name(), disk.bytes(),
        disk.connection().path(), disk.queue().scheduler(),
        disk.connection().uses_uring() ? "uring" : "dev");
    if (!disk.connection().uses_uring()) continue;
    const unsigned seen = disk.ring_entries() * possible_cpus();
    if (seen < disk.queue().nr_requests()) {
      log(Level::warning, "{}: buffer_memory holds {} requests: of nr_requests {} no more are seen",
          disk.name(), seen, disk.queue().nr_requests());
    }
  }
  log(Level::notice, "ready: {} disk{} in {}, {} worker{}", disks_.size(),
      disks_.size() == 1 ? "" : "s", directory_->path(), workers_.size(),
      workers_.size() == 1 ? "" : "s");
  sd_notifyf(0, "READY=1\nSTATUS=Serving %zu disk%s in %s\nMAINPID=%lu", disks_.size(),
             disks_.size() == 1 ? "" : "s", directory_->path().c_str(),
             static_cast<unsigned long>(getpid()));
}

// --- Events -----------------------------------------------------------------------------------

void Daemon::run(const std::string& disk, sysfs::Change change,
                 std::unique_ptr<PendingStore> store) {
  const std::lock_guard guard(disks_mutex_);
  for (Served& served : disks_) {
    if (served.disk->name() != disk || served.leaving) continue;
    served.keeper->submit(std::move(change), std::move(store));
    return;
  }
  store->finish(ENODEV);
}

void Daemon::call_on_workers(const std::function<void(IoWorker&)>& call) {
  std::atomic<unsigned> left{static_cast<unsigned>(serving_.size())};
  std::list<CallCommand> commands;
  for (IoWorker* worker : serving_) {
    commands.emplace_back(call, team_, left);
    worker->send(commands.back());
  }
  for (unsigned n = left.load(); n != 0; n = left.load()) left.wait(n);
}

void Daemon::on_fronts(const std::function<void(Front&)>& call) {
  call_on_workers([&call](IoWorker& worker) { worker.each_front(call); });
}

void Daemon::tell_main() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(events_.get(), &one, sizeof(one));
}

/// Waits for an event or a signal, at most that long (-1: for ever). True: a signal to stop came.
bool Daemon::wait(int milliseconds) {
  std::array<pollfd, 2> fds{pollfd{signals_.get(), POLLIN, 0}, pollfd{events_.get(), POLLIN, 0}};
  if (poll(fds.data(), fds.size(), milliseconds) <= 0) return false;
  std::uint64_t count = 0;
  [[maybe_unused]] ssize_t n = read(events_.get(), &count, sizeof(count));
  signalfd_siginfo info{};
  bool stop = false;
  while (read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    ++signals_seen_;
    stop = true;
  }
  return stop;
}

int Daemon::serve() {
  for (;;) {
    const bool leaving = std::any_of(disks_.begin(), disks_.end(),
                                     [](const Served& served) { return served.leaving; });
    if (wait(leaving ? kLookMs : turn_off_ranges())) break;
    note_gone();
    finish_leaving();
    if (disks_.empty()) {
      log(Level::notice, "the last disk was unmounted");
      break;
    }
    if (control_gone_.load() && !control_gone_said_) {
      control_gone_said_ = true;
      log(Level::warning, "{} was unmounted by somebody else; the disks go on without it",
          directory_->control_path());
    }
  }
  return stop();
}

/// Disks whose block file was unmounted by hand begin to leave.
void Daemon::note_gone() {
  for (Served& served : disks_) {
    if (!served.disk->gone.load() || served.leaving) continue;
    log(Level::notice, "{}: unmounted by somebody else, taken out", served.disk->name());
    {
      const std::lock_guard guard(disks_mutex_);
      served.leaving = true;
    }
    served.mounted = false;
    tree_.remove_disk(served.disk->name());
    served.keeper->cancel_changes();
  }
}

void Daemon::finish_leaving() {
  for (auto it = disks_.begin(); it != disks_.end();) {
    if (!it->leaving || it->disk->unanswered() != 0) {
      ++it;
      continue;
    }
    Disk& disk = *it->disk;
    it->keeper->stop();
    call_on_workers([&disk](IoWorker& worker) { worker.remove_disk(disk); });
    if (const int error = -disk.backing().flush_all(); error != 0) {
      log(Level::error, "{}: the last flush failed: {}", disk.name(), std::strerror(error));
    }
    const std::string name = disk.name();
    {
      const std::lock_guard guard(disks_mutex_);
      it = disks_.erase(it);
    }
    directory_->remove_disk_file(name);
    log(Level::info, "{}: released", name);
  }
}

// --- Range mode (docs/architecture.md "Concurrency rules", rule 14)
// -------------------------------

/// By the keeper. First every new write takes its range; when those without one are done, unaligned
/// writes may begin.
void Daemon::turn_on_ranges(Disk& disk) {
  static const std::atomic<bool> never{false};
  log(Level::info, "{}: range mode on: writes that are not whole blocks, all exclude each other",
      disk.name());
  on_fronts([&disk](Front& front) { front.set_range_mode(disk, true, false); });
  [[maybe_unused]] const bool frozen = disk.freezer().freeze(never);
  disk.freezer().thaw();
  on_fronts([&disk](Front& front) { front.set_range_mode(disk, true, true); });
  disk.range_mode_wanted.store(false);
  disk.range_mode.store(Disk::RangeMode::on);
  tell_main();  // which looks from now on whether it is still needed
}

/// Posts the end of range mode where it was not needed for a while; how long to wait until the next
/// look, in milliseconds, -1: for ever.
int Daemon::turn_off_ranges() {
  int milliseconds = -1;
  for (Served& served : disks_) {
    Disk& disk = *served.disk;
    if (disk.range_mode.load() == Disk::RangeMode::off) continue;
    milliseconds = kRangeLookMs;
    const bool quiet = monotonic_now() - disk.last_unaligned() > kRangeModeTime;
    Disk::RangeMode on = Disk::RangeMode::on;
    if (!quiet || !disk.range_mode.compare_exchange_strong(on, Disk::RangeMode::changing)) continue;
    served.keeper->post([this, &disk] { turn_off_ranges(disk); });
  }
  return milliseconds;
}

/// By the keeper. No unaligned write begins any more; if none is under way, the others need no
/// ranges. Those that came meanwhile turn it on again.
void Daemon::turn_off_ranges(Disk& disk) {
  on_fronts([&disk](Front& front) { front.set_range_mode(disk, true, false); });
  if (disk.unaligned() != 0) {
    on_fronts([&disk](Front& front) { front.set_range_mode(disk, true, true); });
    disk.range_mode_wanted.store(false);
    disk.range_mode.store(Disk::RangeMode::on);
    return;
  }
  on_fronts([&disk](Front& front) { front.set_range_mode(disk, false, false); });
  log(Level::info, "{}: range mode off: only whole blocks for {} s", disk.name(),
      kRangeModeTime.ns / 1'000'000'000);
  disk.range_mode.store(Disk::RangeMode::off);
  if (disk.range_mode_wanted.load()) disk.want_range_mode();
}

// --- Stop -------------------------------------------------------------------------------------

int Daemon::stop() {
  log(Level::notice, "stopping");
  tell_service_manager("STOPPING=1\nSTATUS=Unmounting");
  for (Served& served : disks_) served.keeper->cancel_changes();
  unmount_disks();
  if (!drain()) abandon();
  for (Served& served : disks_) served.keeper->stop();
  on_fronts([](Front& front) { front.fail_all(); });
  stop_workers();
  tell_service_manager("STATUS=Flushing");
  const int status = flush_backings();
  control_->stop();
  {
    const std::lock_guard guard(disks_mutex_);
    for (Served& served : disks_) tree_.remove_disk(served.disk->name());
    disks_.clear();
  }
  directory_->remove_all_made();
  log(Level::notice, "stopped");
  return status;
}

/// Workers go on serving. A busy mount is tried again for a second, then taken out of sight.
void Daemon::unmount_disks() {
  const Clock::time_point until = Clock::now() + kBusyRetry;
  for (Served& served : disks_) {
    if (!served.mounted || served.disk->gone.load()) continue;
    const std::string& path = served.disk->connection().path();
    int error = unmount(path, false);
    while (error == EBUSY && Clock::now() < until && signals_seen_ < 2) {
      [[maybe_unused]] const bool again = wait(kLookMs);
      error = unmount(path, false);
    }
    if (error == EBUSY) {
      log(Level::warning, "{} is in use: unmounted lazily, its users get errors from now on", path);
      error = unmount(path, true);
    }
    // It has users also where somebody else unmounted it lazily (EINVAL), as long as it is not
    // gone.
    on_fronts([&served](Front& front) { front.stop_admitting(*served.disk); });
    if (error != 0 && error != EINVAL) {
      log(Level::error, "{}: cannot unmount: {}", path, std::strerror(error));
    }
    served.mounted = false;
  }
}

/// With what is said goes how long it may take: stop_timeout is ours to keep, not the manager's.
void Daemon::tell_service_manager(const std::string& what) const {
  const auto most = std::chrono::duration_cast<std::chrono::microseconds>(config_.stop_timeout) +
                    std::chrono::microseconds(kStopMargin);
  sd_notify(0, fmt::format("{}\nEXTEND_TIMEOUT_USEC={}", what, most.count()).c_str());
}

/// False: it took too long, or a second signal came.
bool Daemon::drain() {
  const Clock::time_point until = Clock::now() + config_.stop_timeout;
  Clock::time_point tell = Clock::now();
  for (;;) {
    std::uint64_t inside = 0;
    for (Served& served : disks_) inside += served.disk->unanswered();
    if (inside == 0) return true;
    if (Clock::now() >= tell) {
      tell_service_manager(
          fmt::format("STATUS=Draining, {} request{} left", inside, inside == 1 ? "" : "s"));
      tell += kStatusEvery;
    }
    if (signals_seen_ >= 2 || Clock::now() >= until) {
      log(Level::error, "{}: {} requests are answered with an error",
          signals_seen_ >= 2 ? "told twice to stop" : "the disks did not drain in time", inside);
      return false;
    }
    [[maybe_unused]] const bool again = wait(kLookMs);
  }
}

/// Answers everything that is left with EIO and ends the process: its rings hold I/O that may never
/// end, so nothing is destroyed.
void Daemon::abandon() {
  on_fronts([](Front& front) { front.fail_all(); });
  control_->stop();
  for (Served& served : disks_) directory_->remove_disk_file(served.disk->name());
  directory_->remove_all_made();
  _exit(kExitFailed);
}

int Daemon::flush_backings() {
  int status = kExitStopped;
  for (Served& served : disks_) {
    const int error = -served.disk->backing().flush_all();
    if (error == 0) continue;
    log(Level::error, "{}: the last flush failed: {}", served.disk->name(), std::strerror(error));
    status = kExitFailed;
  }
  return status;
}

void Daemon::stop_workers() {
  if (threads_.empty()) return;
  call_on_workers([](IoWorker& worker) { worker.stop(); });
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  serving_.clear();
}

}  // namespace elevd::daemon
