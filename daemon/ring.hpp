// SPDX-License-Identifier: Apache-2.0
// Ring: an io_uring, made and used by one thread.
//
// Owns:       the ring.
// Thread:     the one that constructed it; only that one may submit or wait (SINGLE_ISSUER).
// Invariants: sqe() never fails: a full submission queue is submitted and gone on with.
// See also:   docs/architecture.md "Concurrency rules", rule 5.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <optional>

#include "sched/units.hpp"

namespace elevd::daemon {

class Ring {
 public:
  /// `completions`: entries of the completion queue, rounded up to a power of two. `wide`:
  /// submission entries of 128 bytes, which commands need. Throws std::system_error.
  explicit Ring(unsigned completions, bool wide = false);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  [[nodiscard]] io_uring_sqe& sqe();
  /// Submits. `sleep`: waits for a completion, at the longest until `until` (`now` is the clock).
  void submit(bool sleep, std::optional<sched::Instant> until, sched::Instant now);

  /// Calls `reaped(user_data, res, flags)` for every completion there is.
  template <class F>
  unsigned reap(F&& reaped) {
    unsigned head = 0;
    unsigned n = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      ++n;
      reaped(cqe->user_data, cqe->res, cqe->flags);
    }
    if (n != 0) io_uring_cq_advance(&ring_, n);
    return n;
  }

  /// Makes a table of that many descriptors that submissions may name by their place in it, which
  /// saves looking them up. False: the kernel does not do it.
  [[nodiscard]] bool make_file_table(unsigned places);
  /// `fd` -1 empties the place. The table holds the file open.
  [[nodiscard]] bool set_file(unsigned place, int fd);
  void drop_file_table();

  /// The same for memory that I/O goes to and comes from, which is pinned whole.
  [[nodiscard]] bool make_buffer_table(unsigned places);
  [[nodiscard]] bool set_buffer(unsigned place, const iovec& memory);

  [[nodiscard]] int fd() const { return ring_.ring_fd; }
  [[nodiscard]] unsigned completions() const { return *ring_.cq.kring_entries; }

 private:
  io_uring ring_{};
  bool deferred_ = true;  ///< completions are posted only when the kernel is entered for them
};

}  // namespace elevd::daemon
