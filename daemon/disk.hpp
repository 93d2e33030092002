// SPDX-License-Identifier: Apache-2.0
// Disk: everything of one configured disk: backing, request queue, connection, gates.
//
// Owns:       all of it.
// Thread:     made and ended by the main thread; workers use the queue, the backing and the
//             connection between add() and remove() of their fronts.
// Invariants: backing and geometry do not change while the disk lives.
// See also:   backing.hpp, sched/request_queue.hpp, disk_connection.hpp, keeper.hpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backing.hpp"
#include "config/config.hpp"
#include "disk_connection.hpp"
#include "freezer.hpp"
#include "modelled_device.hpp"
#include "range_table.hpp"
#include "sched/request_queue.hpp"
#include "sysfs/disk.hpp"

namespace elevd::daemon {

class Disk {
 public:
  /// `index`: from 0, of this daemon's disks. `groups` outlives the disk.
  Disk(const config::DiskConfig& config, std::unique_ptr<Backing> backing, unsigned workers,
       unsigned index, sched::Groups& groups);
  ~Disk();

  /// Needs the ports of all workers before anything can freeze it.
  void connect(std::span<WorkerPort* const> ports);
  /// Makes the connection object for the block file at `path`; it is mounted separately.
  void make_connection(std::string path);

  [[nodiscard]] unsigned index() const { return index_; }
  [[nodiscard]] const std::string& name() const { return config_.name; }
  [[nodiscard]] const config::DiskConfig& config() const { return config_; }
  [[nodiscard]] Backing& backing() { return *backing_; }
  [[nodiscard]] sched::RequestQueue& queue() { return queue_; }
  [[nodiscard]] DiskConnection& connection() { return *connection_; }
  [[nodiscard]] bool has_connection() const { return connection_ != nullptr; }
  [[nodiscard]] Freezer& freezer() { return *freezer_; }
  [[nodiscard]] std::shared_ptr<Freezer> shared_freezer() { return freezer_; }
  /// Null: the backing itself sets the pace.
  [[nodiscard]] ModelledDevice* model() { return model_.get(); }
  [[nodiscard]] sysfs::Disk& facts() { return facts_; }
  [[nodiscard]] std::uint64_t bytes() const { return backing_->geometry().bytes; }

  /// Bytes of WRITE payload that one worker may hold for this disk.
  [[nodiscard]] std::uint64_t write_memory_per_worker() const { return write_memory_per_worker_; }
  /// Most requests the kernel lets through at once: more than the elevator should ever see.
  [[nodiscard]] unsigned max_background() const;
  /// Entries of each CPU's queue on the uring transport: as many payloads as buffer_memory holds, 4
  /// to 256, or to nr_requests as it was configured (docs/spec/fuse.md section 8.4).
  [[nodiscard]] unsigned ring_entries() const { return ring_entries_; }

  // Range mode (docs/architecture.md "Concurrency rules", rule 14).
  [[nodiscard]] RangeTable& ranges() { return ranges_; }
  /// By a worker: an unaligned write came in, or was answered.
  void unaligned_begins(sched::Instant now) {
    unaligned_.fetch_add(1, std::memory_order_seq_cst);
    last_unaligned_ns_.store(now.ns, std::memory_order_relaxed);
  }
  void unaligned_ends() { unaligned_.fetch_sub(1, std::memory_order_seq_cst); }
  /// Unaligned writes not answered.
  [[nodiscard]] std::uint32_t unaligned() const { return unaligned_.load(); }
  /// Requests taken and not answered, whether inside the queue or not; 0: there are none. A write
  /// that waits for its range is not inside.
  [[nodiscard]] std::uint64_t unanswered() {
    return queue_.inside() + unaligned() + (ranges_.empty() ? 0 : 1);
  }
  [[nodiscard]] sched::Instant last_unaligned() const { return {last_unaligned_ns_.load()}; }
  /// By a worker that cannot go on without it; calls `turn_on_ranges` unless that is under way.
  void want_range_mode();
  enum class RangeMode : std::uint8_t { off, changing, on };
  std::atomic<RangeMode> range_mode{RangeMode::off};
  std::atomic<bool> range_mode_wanted{false};
  std::function<void()> turn_on_ranges;  ///< set before workers know the disk

  /// The connection was unmounted: set once, by the worker that noticed.
  std::atomic<bool> gone{false};

 private:
  class RunCommand;

  [[nodiscard]] int command_device(std::string_view text);

  const config::DiskConfig config_;
  std::unique_ptr<Backing> backing_;
  sched::RequestQueue queue_;
  std::uint64_t write_memory_per_worker_;
  unsigned index_;
  unsigned ring_entries_ = 0;
  std::span<WorkerPort* const> ports_;  ///< of all workers; set before the control files are there
  std::shared_ptr<Freezer> freezer_;
  std::unique_ptr<DiskConnection> connection_;
  sysfs::Disk facts_;
  std::unique_ptr<ModelledDevice> model_;
  std::unique_ptr<RunCommand> run_;
  RangeTable ranges_;
  std::atomic<std::uint32_t> unaligned_{0};
  std::atomic<std::int64_t> last_unaligned_ns_{0};
};

/// Limits of a disk on that backing, docs/spec/sysfs.md section 3 for what the backing leaves open.
[[nodiscard]] sched::Limits limits_of(const Geometry& geometry);

/// CPUs the machine may have: as many queues has a connection on the uring transport.
[[nodiscard]] unsigned possible_cpus();

/// CLOCK_MONOTONIC.
[[nodiscard]] sched::Instant monotonic_now();

}  // namespace elevd::daemon
