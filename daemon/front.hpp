// SPDX-License-Identifier: Apache-2.0
// Front: where the requests of callers come in and are answered; one per worker and transport.
//
// Owns:       the memory of its requests.
// Thread:     its worker's, but for what says otherwise.
// Invariants: every request it admits is answered once, by answer().
// See also:   block_front.hpp (what the transports have in common), dev_front.hpp (over /dev/fuse),
//             uring_front.hpp (FUSE over io_uring).
#pragma once

#include <cstdint>

#include "front_request.hpp"

namespace elevd::daemon {

class IoWorker;

class Front {
 public:
  virtual ~Front() = default;

  /// Serves a disk from now on / no more. REQUIRES for remove: none of its requests is inside.
  virtual void add(Disk& disk) = 0;
  virtual void remove(Disk& disk) = 0;

  /// Something of this front happened on the ring, with the object it had named.
  virtual void on_event(void* object, int result) = 0;

  /// Takes what callers sent and submits it, at most kEntriesPerTurn a disk.
  virtual void admit() = 0;

  /// Whether no further request of a caller of that disk has come yet.
  [[nodiscard]] virtual bool burst_is_over(Disk& disk) = 0;

  /// Whether nothing can be admitted until an event comes, which the ring was asked to report.
  [[nodiscard]] virtual bool may_sleep() = 0;

  /// Answers a finished request and takes it home. Called in the thread of the worker that
  /// completed it, which may be any; `worker` is that one.
  virtual void answer(FrontRequest& request, IoWorker& worker) = 0;

  /// Range mode of a disk (docs/architecture.md, rule 14). `take`: every write takes its range;
  /// `ready`: and unaligned ones may begin, since no write without a range is left.
  virtual void set_range_mode(Disk& disk, bool take, bool ready) = 0;

  /// Reads nothing more from a disk's connection; what was read is served.
  virtual void stop_admitting(Disk& disk) = 0;

  /// Answers everything not answered with EIO: the daemon is being ended by force.
  virtual void fail_all() = 0;
};

}  // namespace elevd::daemon
