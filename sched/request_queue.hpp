// SPDX-License-Identifier: Apache-2.0
// RequestQueue: the block layer of one disk, shared by all workers.
//
// Owns:       limits, tag maps with their requests, the elevator, residual list, flush machine,
//             a context per worker.
// Thread:     submit, resume, run, complete: by a worker, with its own Worker object.
//             What is marked "frozen" needs a closed, drained gate: a keeper does it.
// Time:       the worker's `now`.
// Invariants: (1) a bio enters the gate once, with all its pieces, and leaves once;
//             (2) one worker dispatches at a time, and no run that was asked for is lost;
//             (3) while the residual list holds something the elevator is not asked.
// See also:   docs/spec/plug-and-merge.md, docs/spec/tags-and-depth.md, docs/spec/none.md;
//             docs/architecture.md "Concurrency rules".
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "bio.hpp"
#include "elevator.hpp"
#include "flush_machine.hpp"
#include "groups.hpp"
#include "limits.hpp"
#include "lock.hpp"
#include "queue_view.hpp"
#include "request.hpp"
#include "stats.hpp"
#include "tag_map.hpp"
#include "worker.hpp"

namespace elevd::sched {

/// Smallest nr_requests; smaller numbers written become this (docs/spec/tags-and-depth.md 2).
inline constexpr std::uint32_t kMinRequests = 4;
inline constexpr std::uint32_t kDefaultRequests = 128;
/// Largest nr_requests with a scheduler: 16 x 128.
inline constexpr std::uint32_t kMaxSchedulerRequests = 2048;
inline constexpr std::uint32_t kMaxHardwareDepth = 10240;
/// Entries of a software queue that a bio is tried against, from the newest.
inline constexpr unsigned kSoftwareQueueSearch = 8;

/// Bios of a worker that look for no merge in the elevator after it found the lock of that held: as
/// long as others are at it, already to try costs more than the lookup finds.
inline constexpr unsigned kContendedFor = 32;

/// Turns of a worker that a completion is put off for because the elevator lock is held.
inline constexpr unsigned kMostTurnsPutOff = 8;

/// What a disk has per worker.
struct alignas(64) QueueContext : bi::list_base_hook<> {
  RequestQueue* queue = nullptr;
  // Private to the worker.
  bool gate_closed = false;
  bool dispatching = false;  ///< it is the dispatcher and goes on in its next turn
  bool wants_run = false;
  std::uint32_t runs_taken = 0;
  BioList gated;                   ///< wait at the gate, in order
  RequestList completed;           ///< the elevator is still to be told
  Request* plug_newest = nullptr;  ///< newest request of this queue in the worker's plug
  unsigned turns_put_off = 0;      ///< that `completed` waits for the elevator lock
  unsigned leave_out = 0;          ///< so many bios look for no merge in the elevator
  // Shared.
  Lock software_lock;
  RequestList software_queue ELEVD_GUARDED_BY(software_lock);
  WorkerCounters counters;
};

class RequestQueue {
 public:
  struct Options {
    Limits limits;
    std::uint32_t queue_depth = 128;  ///< hardware tags, 1..kMaxHardwareDepth
    unsigned workers = 1;             ///< 1..64
    Groups* groups = nullptr;         ///< what numbers of groups mean; null: there is the root only
  };
  explicit RequestQueue(const Options& options);
  ~RequestQueue();

  // --- The data path, by workers -----------------------------------------------------------

  /// Takes a bio; op, flags, start, length, priority, issuer, group are set. It appears in
  /// `finished` of some worker once, with `error` set: EIO (not whole logical blocks), EOPNOTSUPP
  /// (discard or write zeroes switched off), EAGAIN (kBioNoWait would have waited), or what the
  /// driver said.
  void submit(Worker& worker, Bio& bio);

  /// Goes on with a bio that was woken for a tag.
  void resume(Worker& worker, Bio& bio);

  /// Asks for a dispatch: by whoever made something dispatchable.
  void run(Worker& worker);

  /// The same from inside a completion: notes it for the loop's next step.
  void run_later(Worker& worker);

  /// The loop's step for a context in `runs`.
  void run_noted(Worker& worker);

  /// Forgets what run_later noted: the worker will have nothing more to do with this queue.
  /// REQUIRES: drained, and nobody submits.
  void drop_run(Worker& worker);

  /// The driver is done with `rq`; `error` is an errno or 0. (Single bios of it may have been
  /// failed before with Bio::fail.)
  void complete(Worker& worker, Request& rq, int error);

  /// A finished bio was answered. True: the gate of this worker is closed, tell the keeper.
  [[nodiscard]] bool leave(Worker& worker);

  /// Takes the requests of one plug that belong here, in order.
  void unplug(Worker& worker, RequestList& list, bool from_schedule);

  // --- The gate, by each worker for itself -------------------------------------------------

  void close_gate(Worker& worker);
  void open_gate(Worker& worker);
  /// Bios between gate and answer. Exact once every worker closed its gate.
  [[nodiscard]] std::uint64_t inside() const;

  // --- Tunables, any thread ----------------------------------------------------------------

  [[nodiscard]] unsigned nomerges() const { return nomerges_.load(std::memory_order_relaxed); }
  /// 0, 1 or 2.
  void set_nomerges(unsigned value) { nomerges_.store(value, std::memory_order_relaxed); }
  [[nodiscard]] bool iostats() const { return iostats_.load(std::memory_order_relaxed); }
  void set_iostats(bool on) { iostats_.store(on, std::memory_order_relaxed); }

  /// Limits as they are; a copy made under the elevator lock.
  [[nodiscard]] Limits limits() const;
  /// Frozen.
  void set_limits(const Limits& limits);

  [[nodiscard]] std::string_view scheduler() const;
  [[nodiscard]] std::uint32_t queue_depth() const { return queue_depth_; }
  [[nodiscard]] std::uint32_t nr_requests() const {
    return nr_requests_.load(std::memory_order_relaxed);
  }
  /// Equal to nr_requests without a scheduler.
  [[nodiscard]] std::uint32_t async_depth() const {
    return async_depth_.load(std::memory_order_relaxed);
  }
  /// Largest nr_requests that may be written now: queue_depth without a scheduler, else 2048.
  [[nodiscard]] std::uint32_t max_requests() const;
  /// An elevator and the tags that go with it.
  struct Attachment {
    std::unique_ptr<Elevator> elevator;  ///< null: none
    std::unique_ptr<TagMap> tags;
  };
  /// What a switch to `elevator` (null: none) needs: made before the freeze, by any thread. Throws
  /// std::bad_alloc.
  [[nodiscard]] Attachment prepare(std::unique_ptr<Elevator> elevator) const;
  /// Frozen. Attaches it with the default depths of a fresh scheduler; what was there before comes
  /// back, to be destroyed without a lock.
  Attachment attach(Attachment next);
  /// Frozen. Both in one.
  void set_elevator(std::unique_ptr<Elevator> elevator) { attach(prepare(std::move(elevator))); }
  /// The tags that nr_requests = n needs beyond those that are there, null: none. As prepare().
  [[nodiscard]] std::unique_ptr<TagMap> prepare_requests(std::uint32_t n) const;
  /// Frozen; async_depth is scaled with it. `tags`: of prepare_requests(n).
  /// REQUIRES: kMinRequests <= n <= max_requests(), or n = queue_depth.
  void set_nr_requests(std::uint32_t n, std::unique_ptr<TagMap> tags);
  void set_nr_requests(std::uint32_t n) { set_nr_requests(n, prepare_requests(n)); }
  /// Frozen. More than nr_requests becomes that. False: there is no scheduler, nothing changed.
  /// REQUIRES: n > 0.
  [[nodiscard]] bool set_async_depth(std::uint32_t n);

  /// Calls `use` with the elevator (null: none) under its lock: tunables and debug files.
  template <class Use>
  auto with_elevator(Use&& use) {
    const LockGuard guard(lock_);
    return use(elevator_.get());
  }

  /// What the numbers of groups mean, null: there is the root only.
  [[nodiscard]] Groups* groups() const { return groups_; }
  /// A copy made under the elevator lock.
  [[nodiscard]] GroupWeights group_weights() const {
    const LockGuard guard(lock_);
    return group_weights_;
  }
  /// Whether the scheduler looks at Bio::group; what it says may be a change late.
  [[nodiscard]] bool knows_groups() const { return knows_groups_.load(std::memory_order_relaxed); }
  /// Calls `use` with the weights of groups under the elevator lock, and tells the elevator.
  template <class Use>
  auto with_group_weights(Use&& use) {
    const LockGuard guard(lock_);
    const auto result = use(group_weights_);
    if (elevator_) elevator_->group_weights_changed();
    return result;
  }

  // --- Quiesce, any thread -----------------------------------------------------------------

  /// From now on nothing is given to the driver; bios go on being admitted and inserted.
  void quiesce();
  /// Ends it and runs the queue.
  void unquiesce(Worker& worker);
  [[nodiscard]] bool quiesced() const { return quiesced_.load(std::memory_order_relaxed); }

  // --- Observation, any thread -------------------------------------------------------------

  [[nodiscard]] Stats stats(Instant now);
  /// The map that requests are allocated from. By workers inside, or frozen: it can be replaced.
  [[nodiscard]] TagMap& allocation_tags() { return sched_tags_ ? *sched_tags_ : *hardware_tags_; }
  [[nodiscard]] TagMap& hardware_tags() { return *hardware_tags_; }
  [[nodiscard]] unsigned workers() const { return static_cast<unsigned>(contexts_.size()); }
  /// Saturates at 9; not 0: the driver refused something lately.
  [[nodiscard]] unsigned dispatch_busy() const {
    return dispatch_busy_.load(std::memory_order_relaxed);
  }
  /// When the elevator wants to be asked again, as it stands now. Takes the elevator lock.
  [[nodiscard]] std::optional<Instant> wake_at() const;
  [[nodiscard]] bool restart_marked() const { return restart_.load(std::memory_order_relaxed); }
  /// Copies for the debug tree. They take the elevator lock.
  [[nodiscard]] TagMapView view_hardware_tags() const;
  [[nodiscard]] TagMapView view_sched_tags() const;  ///< depth 0: there is no scheduler
  [[nodiscard]] std::vector<RequestView> view_residual() const;
  [[nodiscard]] std::vector<RequestView> view_busy() const;
  /// The software queue of a worker. Takes the lock of that.
  [[nodiscard]] std::vector<RequestView> view_software(unsigned worker) const;
  /// A bit for each worker whose software queue holds something.
  [[nodiscard]] std::uint64_t software_pending() const {
    return software_pending_.load(std::memory_order_relaxed);
  }
  /// True when nothing is queued, residual or in the flush machine. Takes the elevator lock.
  [[nodiscard]] bool idle();

  /// For tests: every bio merge finds the lock of the elevator contended.
  void contend_bio_merges(bool on) {
    bio_merge_lock_.store(on ? BioMergeLock::contended : BioMergeLock::tried);
  }
  /// For benches: a bio merge waits for that lock.
  void wait_for_bio_merges() { bio_merge_lock_.store(BioMergeLock::waited_for); }

  void* driver_data = nullptr;  ///< the daemon's disk

 private:
  friend class QueueTest;

  [[nodiscard]] QueueContext& context(const Worker& worker) { return *contexts_[worker.index()]; }
  void enter(Worker& worker, QueueContext& context, Bio& bio);
  void place(Worker& worker, QueueContext& context, Bio& bio, bool resumed);
  [[nodiscard]] bool admissible(Bio& bio) const;
  void finish(Worker& worker, Bio& bio, int error);

  enum class Merged : std::uint8_t { no, yes, skipped };
  [[nodiscard]] Merged merge(Worker& worker, QueueContext& context, Bio& bio);
  [[nodiscard]] bool merge_in_plug(Worker& worker, QueueContext& context, Bio& bio);
  enum class BioMergeLock : std::uint8_t { tried, waited_for, contended };
  [[nodiscard]] Merged merge_in_elevator(Worker& worker, QueueContext& context, Bio& bio,
                                         BioMergeLock how);
  [[nodiscard]] bool merge_in_software_queue(Worker& worker, QueueContext& context, Bio& bio);
  void merged_bio(Worker& worker, QueueContext& context, Bio& bio, MergeResult kind, MergePoint at);

  [[nodiscard]] Request* allocate(Worker& worker, QueueContext& context, Bio& bio, bool privileged,
                                  bool skipped);
  [[nodiscard]] std::int32_t allocate_slowly(Worker& worker, QueueContext& context, Bio& bio,
                                             DepthLimit limit, bool privileged, bool skipped);
  void attach(Worker& worker, QueueContext& context, Request& rq, Bio& bio, Sectors piece);
  void begin_flush_sequence(Worker& worker, QueueContext& context, Request& rq);
  void add_to_plug(Worker& worker, QueueContext& context, Request& rq);

  /// The elevator lock, and a note if it is contended.
  [[nodiscard]] bool try_lock(QueueContext& context) ELEVD_TRY_ACQUIRE(true, lock_) {
    if (lock_.try_lock()) return true;
    context.leave_out = kContendedFor;
    return false;
  }
  void insert(Worker& worker, RequestList& list);
  void insert_into_elevator(Worker& worker, RequestList& list) ELEVD_REQUIRES(lock_);
  void insert_list(Worker& worker, RequestList& list, RequestList& merged) ELEVD_REQUIRES(lock_);
  void insert_traced(Worker& worker, RequestList& list, RequestList& merged) ELEVD_REQUIRES(lock_);
  void issue_directly(Worker& worker, RequestList& list);
  void dispatch(Worker& worker, QueueContext& context);
  [[nodiscard]] unsigned pull_and_issue(Worker& worker, unsigned most, bool& more);
  unsigned pull(Worker& worker, unsigned most, RequestList& batch) ELEVD_REQUIRES(lock_);
  unsigned pull_software(unsigned most, bool one_by_one, RequestList& batch) ELEVD_REQUIRES(lock_);
  [[nodiscard]] std::optional<Instant> next_wake_up() const ELEVD_REQUIRES(lock_);
  [[nodiscard]] bool take_hardware_tag(Worker& worker, Request& rq) ELEVD_REQUIRES(lock_);
  void give_back_hardware_tags(Worker& worker, RequestList& batch);
  void start(Worker& worker, Request& rq);
  void not_started(Worker& worker, Request& rq);
  void note_busy(bool busy);

  void flush_outcome(Worker& worker, FlushMachine::Outcome& out, RequestList& data)
      ELEVD_REQUIRES(lock_);
  void complete_flush_step(Worker& worker, Request& rq);
  void finish_request(Worker& worker, Request& rq);
  void tell_of_completed(Worker& worker, QueueContext& context);
  void finish_requests(Worker& worker, QueueContext& context) ELEVD_RELEASE(lock_);
  void free_and_answer(Worker& worker, Request& rq);
  void free_request(Worker& worker, Request& rq);
  void free_hardware_tag(Worker& worker, Request& rq);
  void free_merged(Worker& worker, RequestList& merged, MergePoint at);
  void account_time(Instant now, bool end);
  [[nodiscard]] std::uint64_t in_flight() const;

  std::vector<std::unique_ptr<QueueContext>> contexts_;
  const std::uint32_t queue_depth_;
  Groups* const groups_;
  std::unique_ptr<TagMap> hardware_tags_;
  std::unique_ptr<TagMap> sched_tags_;

  Limits limits_;                       ///< written frozen and under lock_; read by entered bios
  std::unique_ptr<Elevator> elevator_;  ///< replaced frozen and under lock_
  GroupWeights group_weights_;          ///< under lock_; they outlive elevators
  // Away from what every bio reads.
  alignas(64) mutable Lock lock_;  ///< the elevator lock
  RequestList residual_ ELEVD_GUARDED_BY(lock_);
  FlushMachine flush_ ELEVD_GUARDED_BY(lock_);
  unsigned last_served_ ELEVD_GUARDED_BY(lock_) = 0;  ///< software queue served last

  alignas(64) std::atomic<std::uint32_t> runs_{0};
  std::atomic<bool> restart_{false};        ///< a request waits for a hardware tag
  std::atomic<bool> quiesced_{false};       ///< written under lock_
  std::atomic<bool> residual_mark_{false};  ///< the residual list is not empty
  std::atomic<unsigned> dispatch_busy_{0};
  std::atomic<std::uint64_t> software_pending_{0};  ///< a bit per worker with queued requests
  alignas(64) std::atomic<unsigned> nomerges_{0};
  std::atomic<BioMergeLock> bio_merge_lock_{BioMergeLock::tried};
  std::atomic<bool> knows_groups_{false};
  std::atomic<bool> iostats_{true};
  std::atomic<std::uint32_t> nr_requests_;
  std::atomic<std::uint32_t> async_depth_;
  alignas(64) std::atomic<std::int64_t> stamp_ms_{0};
  std::atomic<std::uint64_t> io_ticks_ms_{0};
};

}  // namespace elevd::sched
