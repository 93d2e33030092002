// SPDX-License-Identifier: Apache-2.0
// ModelledDevice: holds the completions of a disk back until its device model says they are due.
//
// Owns:       the model and an entry for every request that may be at the device.
// Thread:     any; a mutex of its own, held for list work only.
// Time:       an argument. The I/O itself is done at once; only its completion waits.
// Invariants: (1) a request is completed once, when its I/O is done and it is due, in the order
// due;
//             (2) whoever made the earliest due time bounds its sleep by it.
// See also:   device_model.hpp (the pure part, shared with the simulator);
//             docs/architecture.md "Device models".
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device_model.hpp"
#include "sched/request.hpp"

namespace elevd::daemon {

class ModelledDevice {
 public:
  /// `requests`: how many can be at the device at once.
  ModelledDevice(const DeviceTiming& timing, std::uint32_t requests);

  /// `rq` is being dispatched; its I/O may begin. Returns when to call take().
  [[nodiscard]] std::optional<sched::Instant> add(sched::Request& rq, sched::Instant now);

  /// The I/O of `rq` is done. True: it was due already, complete it now; else take() gives it out.
  [[nodiscard]] bool io_done(sched::Request& rq, int error);

  /// Calls `complete(Request&, int error)` for everything that is due and done, oldest due first,
  /// and for one that was released: the caller runs the queue before it takes the next. Returns
  /// when to look again; none: nothing is being served.
  template <class F>
  [[nodiscard]] std::optional<sched::Instant> take(sched::Instant now, F&& complete) {
    bool release = true;
    std::optional<sched::Instant> next;
    for (;;) {
      std::optional<Finished> finished;
      {
        const std::lock_guard guard(mutex_);
        finished = next_finished(now, release);
        if (!finished) next = released_ != 0 ? now : model_.next_due();
      }
      if (!finished) return next;
      complete(*finished->rq, finished->error);
    }
  }

  /// `stall`, `release N`, `release all` (docs/spec/scenario.md section 2); 0 or EINVAL, also for a
  /// release of a device that is not stalled. Whoever calls it then has a worker call take().
  [[nodiscard]] int command(std::string_view text, sched::Instant now);
  /// "stalled=0|1\nat_device=N\n".
  [[nodiscard]] std::string describe();

 private:
  struct Held {
    DeviceEntry entry;
    sched::Request* rq = nullptr;
    int error = 0;
    bool done = false;  ///< the I/O is
    bool due = false;   ///< it has left the model
  };
  struct Finished {
    sched::Request* rq = nullptr;
    int error = 0;
  };

  [[nodiscard]] std::optional<Finished> next_finished(sched::Instant now, bool& release);
  [[nodiscard]] DeviceEntry* take_released(sched::Instant now);
  [[nodiscard]] std::optional<Finished> leave_model(Held& held);

  std::mutex mutex_;
  DeviceModel model_;
  std::vector<std::unique_ptr<Held>> all_;
  std::vector<Held*> free_;
  std::uint64_t released_ = 0;  ///< of a stalled device, to be given out by take()
  bool stall_ends_ = false;     ///< when these are out
};

}  // namespace elevd::daemon
