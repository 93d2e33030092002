// SPDX-License-Identifier: Apache-2.0
// Daemon: one elevd from the lock on DIR to its removal.
//
// Owns:       DIR, disks, workers, control connection, keepers.
// Thread:     everything by the main thread; workers and the control thread call back where noted.
// Time:       waits for signals and events; a stop ends after stop_timeout at the latest.
// Invariants: (1) whatever step of the start fails, what was done is undone;
//             (2) nothing acknowledged is lost by a stop: it drains and flushes first.
// See also:   docs/architecture.md "Life of the daemon".
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "config/config.hpp"
#include "control.hpp"
#include "directory.hpp"
#include "disk.hpp"
#include "group_finder.hpp"
#include "io_worker.hpp"
#include "keeper.hpp"
#include "sysfs/tree.hpp"

namespace elevd::daemon {

class Daemon : public ChangeRunner {
 public:
  explicit Daemon(config::DaemonConfig config);
  ~Daemon() override;

  /// Everything up to being ready. REQUIRES: SIGTERM, SIGINT and SIGHUP are blocked in this thread.
  [[nodiscard]] Result<void> start();
  /// Serves until a signal or until the last disk is gone; returns the exit status.
  [[nodiscard]] int serve();

  // ChangeRunner, by the control thread.
  void run(const std::string& disk, sysfs::Change change,
           std::unique_ptr<PendingStore> store) override;

 private:
  struct Served {
    std::unique_ptr<Disk> disk;
    std::unique_ptr<Keeper> keeper;
    bool mounted = false;
    bool leaving = false;  ///< unmounted by hand, drains
  };

  [[nodiscard]] Result<void> open_disks();
  [[nodiscard]] Result<void> apply_attributes(Served& served);
  [[nodiscard]] Result<void> apply_group_weights(Disk& disk);
  [[nodiscard]] Result<void> mount_disks();
  [[nodiscard]] Result<void> refused_uring(const std::string& why) const;
  [[nodiscard]] Result<void> start_workers();
  [[nodiscard]] Result<void> start_threads();
  [[nodiscard]] Result<void> start_control();
  void ask_attributes();
  void log_ready();

  void call_on_workers(const std::function<void(IoWorker&)>& call);
  void on_fronts(const std::function<void(Front&)>& call);
  void stop_workers();
  void tell_main();
  [[nodiscard]] bool wait(int milliseconds);
  void note_gone();
  void finish_leaving();
  void turn_on_ranges(Disk& disk);
  [[nodiscard]] int turn_off_ranges();
  void turn_off_ranges(Disk& disk);
  [[nodiscard]] int stop();
  void unmount_disks();
  void tell_service_manager(const std::string& what) const;
  [[nodiscard]] bool drain();
  [[nodiscard]] int flush_backings();
  [[noreturn]] void abandon();

  config::DaemonConfig config_;
  std::optional<Directory> directory_;
  std::mutex disks_mutex_;  ///< list and keepers: the control thread looks a disk up in run()
  sched::Groups groups_;
  GroupFinder group_finder_{groups_};
  std::list<Served> disks_;
  sysfs::Tree tree_;
  WorkerTeam team_;
  std::vector<std::unique_ptr<IoWorker>> workers_;
  std::vector<IoWorker*> serving_;  ///< those whose thread runs and has a ring
  std::vector<std::thread> threads_;
  std::unique_ptr<Control> control_;
  Descriptor signals_;  ///< a signalfd
  Descriptor events_;   ///< an eventfd: something for the main thread
  int signals_seen_ = 0;
  std::atomic<bool> control_gone_{false};
  bool control_gone_said_ = false;
};

}  // namespace elevd::daemon
