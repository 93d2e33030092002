// SPDX-License-Identifier: Apache-2.0
// IoWorker: a worker with its ring, its front ends and its share of every disk.
//
// Owns:       ring, fronts, payload buffers, operations (what is in flight on the ring).
// Thread:     one thread runs all of it; send() (WorkerPort) and wake() from any.
// Invariants: (1) requests in flight <= operations <= completion entries less a reserve;
//             (2) a completion never dispatches: it appends to the worker's lists.
// See also:   worker_loop.hpp, docs/architecture.md "Concurrency rules" 4, 5, 11.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "descriptor.hpp"
#include "dev_front.hpp"
#include "disk.hpp"
#include "operation.hpp"
#include "ring.hpp"
#include "uring_front.hpp"
#include "worker_loop.hpp"

namespace elevd::daemon {

/// What all workers share: who there is, and whom to tell of what they notice.
struct WorkerTeam {
  std::vector<sched::Worker*> workers;
  std::vector<class IoWorker*> io_workers;
  std::vector<WorkerPort*> ports;
  unsigned operations = 1024;           ///< requests in flight per worker, at most
  unsigned disks = 0;                   ///< at most
  sched::Duration busy_poll{0};         ///< an idle worker looks for work before it sleeps
  class GroupFinder* groups = nullptr;  ///< null: all are in the root
  unsigned ring_entries = 0;  ///< of all disks on the uring transport, per worker; 0: there is none
  /// A disk's connection was unmounted. Called by a worker, once per disk.
  std::function<void(Disk&)> connection_gone;
};

class IoWorker : public WorkerLoop, public sched::Driver, public WorkerPort {
 public:
  IoWorker(unsigned index, WorkerTeam& team);
  ~IoWorker() override;

  /// Makes the ring and serves until the stop command; `ready` is called when it can be sent to.
  void serve(const std::function<void(const char* failure)>& ready);

  // sched::Driver
  unsigned budget(sched::RequestQueue& queue) override;
  bool issue(sched::Request& rq) override;
  bool burst_is_over(sched::RequestQueue& queue) override;

  // WorkerPort
  void wake() override;

  // For fronts.
  void poll(int fd, unsigned events, void* object);
  void cancel_poll(void* object);
  void connection_gone(Disk& disk);
  void wake_peer(unsigned index) { worker().to_wake |= std::uint64_t{1} << index; }
  /// Queues wait for buffers or ring slots of this worker.
  [[nodiscard]] bool is_starved() const { return !starved_.empty(); }

  /// A command entry of the ring, zeroed but for its kind; it completes in the uring front's
  /// on_event(object). REQUIRES: team.ring_entries != 0.
  [[nodiscard]] io_uring_sqe& ring_command(Disk& disk, void* object);
  /// Pins memory for I/O that names it by `place`, a disk's index. False: it cannot be.
  [[nodiscard]] bool pin_memory(unsigned place, const iovec& memory) {
    return has_buffer_table_ && ring_->set_buffer(place, memory);
  }
  [[nodiscard]] GroupFinder* group_finder() const { return team_.groups; }
  [[nodiscard]] unsigned team_size() const { return static_cast<unsigned>(team_.workers.size()); }

  /// Memory for a payload of any length, widened; null: none left now. It belongs to the pool of
  /// the worker that took it.
  [[nodiscard]] std::byte* take_buffer() { return buffers_.take(); }
  void put_buffer(std::byte* payload) { buffers_.put(payload); }
  [[nodiscard]] BufferPool& buffers() { return buffers_; }

  /// Does something with every front end.
  template <class F>
  void each_front(F&& f) {
    f(static_cast<Front&>(dev_));
    if (uring_) f(static_cast<Front&>(*uring_));
  }
  /// Buffers or ring slots came back: who was starved may try again.
  void memory_freed() { memory_freed_ = true; }
  void add_disk(Disk& disk);
  void remove_disk(Disk& disk);

 protected:
  sched::Instant now() override { return monotonic_now(); }
  void reap() override;
  void admit() override;
  bool may_sleep() override;
  void answer(sched::Bio& bio) override;
  void left_closed_gate(sched::RequestQueue& queue) override;
  std::span<sched::RequestQueue* const> timed_queues() override { return queues_; }
  void submit(bool sleep, std::optional<sched::Instant> until) override;

 private:
  [[nodiscard]] bool issue_inline(Disk& disk, sched::Request& rq);
  [[nodiscard]] bool issue_on_ring(Disk& disk, sched::Request& rq);
  [[nodiscard]] int do_inline(Disk& disk, sched::Op op, const sched::Bio& bio, FrontRequest& front);
  [[nodiscard]] bool show_views(Disk& disk, sched::Request& rq);
  [[nodiscard]] bool find_memory(sched::Request& rq);
  void at_device(Disk& disk, sched::Request& rq);
  void done(Disk& disk, sched::Request& rq, int error);
  void look_at_models();
  void starved(sched::RequestQueue& queue);
  void run_starved();
  void start(Operation& operation);
  void prepare_transfer(io_uring_sqe& sqe, const Operation& operation, int fd);
  void completed(Operation& operation, int result);
  void failed(Operation& operation, int error);
  void next_retry(Operation& operation);
  void retry(Operation& operation);
  void add_bio(Operation& operation, sched::Bio& bio);
  static void report(Disk& disk, const sched::Request& rq, int error);
  void finish(Operation& operation, int error);
  void arm_wake_up();
  /// Has `sqe` name the file of a disk: `fd`, or its place in the ring's table.
  void name_file(io_uring_sqe& sqe, unsigned place, int fd) const;
  void pin();
  void name_files(Disk& disk);

  WorkerTeam& team_;
  std::unique_ptr<Ring> ring_;
  BufferPool buffers_;
  DevFront dev_;
  std::unique_ptr<UringFront> uring_;  ///< where a disk is served that way
  Descriptor wake_up_;                 ///< an eventfd
  std::unique_ptr<Operation[]> operations_;
  Operation* free_operations_ = nullptr;
  unsigned operations_left_ = 0;
  bool memory_freed_ = false;
  sched::Instant last_event_{};  ///< something was reaped
  bool has_file_table_ = false;
  bool has_buffer_table_ = false;
  std::vector<sched::RequestQueue*> queues_;
  std::vector<sched::RequestQueue*> starved_;
  std::vector<Disk*> modelled_;  ///< those that have a device model
};

}  // namespace elevd::daemon
