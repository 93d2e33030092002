// SPDX-License-Identifier: Apache-2.0
// SimulatedDisk: the block layer of one disk as it is, on a virtual clock, over a device model.
//
// Owns:       queue, workers, device model, attribute tree, changes that wait for a drained queue.
// Thread:     one; lock free all the same, so that every try-lock succeeds.
// Time:       set_now(); nothing here moves the clock.
// Invariants: (1) after every call no queue waits to be run, and who was woken or answered was
// told;
//             (2) bios are told in the order they were woken, whatever worker they belong to;
//             (3) while a change is pending no bio is inside, or it waits for those that are.
// See also:   docs/spec/scenario.md section 3; simulation.hpp (tasks and events).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "daemon/device_model.hpp"
#include "daemon/scenario.hpp"
#include "sched/request_queue.hpp"
#include "sysfs/tree.hpp"

namespace elevd::daemon {

class SimulatedDisk : private sched::Driver {
 public:
  /// Who is told. Called in the middle of things: to be noted, not acted upon.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void bio_woken(sched::Bio& bio) = 0;
    virtual void bio_finished(sched::Bio& bio) = 0;
    virtual void gate_opened() = 0;
  };

  SimulatedDisk(const scenario::Scenario& scenario, Listener& listener, sched::TraceSink& trace);
  ~SimulatedDisk() override;
  SimulatedDisk(const SimulatedDisk&) = delete;
  SimulatedDisk& operator=(const SimulatedDisk&) = delete;

  [[nodiscard]] sched::Instant now() const { return now_; }
  void set_now(sched::Instant now);
  [[nodiscard]] sched::RequestQueue& queue() { return *queue_; }

  // --- Bios --------------------------------------------------------------------------------

  /// Gives the bio to `worker`, as new or as woken. True: it waits for a tag.
  [[nodiscard]] bool submit(unsigned worker, sched::Bio& bio);
  [[nodiscard]] bool resume(unsigned worker, sched::Bio& bio);
  /// Ends the plug of `worker`. `sleeps`: because its task has to wait.
  void end_plug(unsigned worker, bool sleeps);
  /// A change is pending: a bio has to wait until gate_opened().
  [[nodiscard]] bool gate_closed() const { return !changes_.empty(); }

  /// The number of the cgroup at `path`, which has that weight from now on.
  [[nodiscard]] sched::GroupId make_group(std::string_view path, std::uint32_t weight);

  // --- The device and the clock ------------------------------------------------------------

  [[nodiscard]] DeviceModel& model() { return model_; }
  /// The next completion or timer of the elevator.
  [[nodiscard]] std::optional<sched::Instant> next_event() const;
  /// Completes the next request that is due. False: none is.
  bool complete_due();
  /// Runs the queue if the elevator asked for that by now.
  bool run_timer();
  /// Completes the oldest request at the device. False: there is none.
  bool release_one();
  void quiesce() { queue_->quiesce(); }
  void unquiesce();

  // --- Files -------------------------------------------------------------------------------

  /// Stores into a file below queue/. Returns 0 or an errno; what needs a drained queue may be
  /// refused later, see change_error(). `line` is the caller's.
  [[nodiscard]] int store(std::string_view attribute, std::string_view value, unsigned line);
  /// A change that could not be made after all: which line, and the errno.
  struct ChangeError {
    unsigned line = 0;
    std::string attribute;
    int error = 0;
  };
  [[nodiscard]] const std::optional<ChangeError>& change_error() const { return change_error_; }
  /// The text of a file: `debug/X` and `disk/X` as docs/spec/scenario.md section 2 says, else below
  /// queue/. Error: an errno.
  [[nodiscard]] tl::expected<std::string, int> show(std::string_view file) const;

 private:
  struct PendingChange {
    sysfs::Change change;
    std::string attribute;
    unsigned line = 0;
  };

  unsigned budget(sched::RequestQueue&) override;
  bool issue(sched::Request& rq) override;

  void complete(DeviceEntry& entry);
  void settle();
  void collect();
  void apply_changes();
  [[nodiscard]] std::optional<sched::Instant> timer() const;
  [[nodiscard]] sysfs::Inode find(std::string_view path) const;

  Listener& listener_;
  sched::Instant now_;
  DeviceModel model_;
  std::deque<DeviceEntry> entries_;
  std::vector<DeviceEntry*> free_entries_;
  // The last worker is the device's: it completes, owns no bio, and takes all mail.
  std::vector<sched::Worker*> peers_;
  std::vector<std::unique_ptr<sched::Worker>> workers_;
  sched::Groups groups_;
  std::unique_ptr<sched::RequestQueue> queue_;
  sysfs::Disk disk_;
  sysfs::Tree tree_;
  std::deque<PendingChange> changes_;
  std::optional<ChangeError> change_error_;
  std::optional<sched::Instant> served_timer_;  ///< the wake_at that was answered already
};

}  // namespace elevd::daemon
