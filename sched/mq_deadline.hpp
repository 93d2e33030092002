// SPDX-License-Identifier: Apache-2.0
// MqDeadline: the elevator that serves in sector order, and nobody much later than his deadline.
//
// Owns:       its trees, fifos and counters; links requests that the queue keeps alive.
// Thread:     as Elevator says. limit, has_candidates and completed run without the lock.
// Time:       `now` of each call; an earlier one than was seen before counts as that one.
// Invariants: (1) a request is in the tree of its class and direction exactly if it is in the fifo
//                 there; those inserted at head are in neither;
//             (2) a fifo is in the order of deadlines, as long as the expire tunables are not
//                 changed; within equal sectors a tree is in the order of insertion;
//             (3) queued(class) counts what is here and what is at the device.
// See also:   docs/spec/mq-deadline.md, which the functions follow section by section.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "elevator.hpp"
#include "sorted_merge.hpp"

namespace elevd::sched {

/// Ranges and defaults: docs/spec/mq-deadline.md section 9.
struct MqDeadlineTunables {
  std::int32_t read_expire_ms = 500;          ///< 0..INT_MAX
  std::int32_t write_expire_ms = 5000;        ///< 0..INT_MAX
  std::int32_t writes_starved = 2;            ///< read batches; negative: no limit
  std::int32_t front_merges = 1;              ///< 0 or 1
  std::int32_t fifo_batch = 16;               ///< requests, 0..INT_MAX
  std::int32_t prio_aging_expire_ms = 10000;  ///< 0..INT_MAX
};

/// Requests of one class and direction.
struct MqDeadlineLane {
  SortedRequests order;
  RequestFifo fifo;
  Sector latest;  ///< where the last dispatched request began
};

class MqDeadline final : public Elevator, private SortedMerge<MqDeadline, MqDeadlineLane> {
 public:
  static constexpr std::string_view kName = "mq-deadline";
  static constexpr unsigned kClasses = 3;     ///< 0 real-time, 1 best effort, 2 idle
  static constexpr unsigned kDirections = 2;  ///< 0 read, 1 everything else

  explicit MqDeadline(const MqDeadlineTunables& tunables = {}) : tunables_(tunables) {}
  ~MqDeadline() override;  ///< asserts: nothing queued, nothing at the device

  [[nodiscard]] std::string_view name() const override { return kName; }
  void insert(RequestList& list, RequestList& merged, Instant now) override;
  Request* dispatch(Instant now) override;
  [[nodiscard]] bool has_work() const override;
  [[nodiscard]] bool has_candidates() const override;
  MergeResult bio_merge(Bio& bio, RequestList& merged, Instant now) override;
  [[nodiscard]] bool allow_merge(const Request&, const Bio&) const override { return true; }
  [[nodiscard]] bool completes_without_lock() const override { return true; }
  [[nodiscard]] bool completed(Request& rq, Instant now) override;
  [[nodiscard]] DepthLimit limit(const Bio& bio) const override;
  [[nodiscard]] std::uint32_t depth_updated(std::uint32_t nr_requests,
                                            std::uint32_t async_depth) override;
  [[nodiscard]] std::optional<Instant> wake_at() const override { return wake_at_; }

  /// A change counts for what is inserted later; what is queued keeps its deadline and its arrival.
  [[nodiscard]] MqDeadlineTunables& tunables() { return tunables_; }

  // --- For the debug tree and tests --------------------------------------------------------

  [[nodiscard]] static unsigned class_of(IoPriority priority);
  [[nodiscard]] const RequestFifo& fifo(unsigned io_class, unsigned direction) const {
    return classes_[io_class].lanes[direction].fifo;
  }
  /// The request at or after the position where the last one was dispatched, null: none.
  [[nodiscard]] const Request* next_request(unsigned io_class, unsigned direction) const;
  [[nodiscard]] const RequestList& dispatch_list() const { return dispatch_list_; }
  [[nodiscard]] std::uint32_t batching() const { return batching_; }
  [[nodiscard]] std::uint32_t starved() const { return starved_; }
  /// Inserted and not completed.
  [[nodiscard]] std::uint32_t queued(unsigned io_class) const {
    return classes_[io_class].queued.load(std::memory_order_seq_cst);
  }
  /// Dispatched or merged away, and not completed.
  [[nodiscard]] std::uint32_t owned_by_driver(unsigned io_class) const {
    const PerClass& c = classes_[io_class];
    return c.dispatched + c.merged - (c.inserted - queued(io_class));
  }
  [[nodiscard]] static Instant deadline(const Request& rq) {
    return {static_cast<std::int64_t>(rq.elevator_word)};
  }
  /// Ends the program unless the invariants hold; for tests, it looks at everything.
  void check() const;

 private:
  friend SortedMerge<MqDeadline, MqDeadlineLane>;
  using Lane = MqDeadlineLane;

  struct PerClass {
    std::array<Lane, kDirections> lanes;
    std::uint32_t inserted = 0;
    std::uint32_t merged = 0;
    std::uint32_t dispatched = 0;
    // Apart from each other and from what is under the lock: whoever completes writes the one,
    // who looks for a merge reads the other.
    alignas(64) std::atomic<std::uint32_t> queued{0};   ///< inserted - completed
    alignas(64) std::atomic<std::uint32_t> on_fifo{0};  ///< written under the lock
  };

  /// What pick would do, before it is done.
  struct Choice {
    Request* rq = nullptr;
    unsigned direction = 0;
    bool new_batch = false;
    std::uint32_t starved = 0;  ///< as it is after that
  };

  [[nodiscard]] static unsigned direction(Op op) { return op == Op::read ? 0 : 1; }
  [[nodiscard]] static PerClass& class_of(const Request& rq) {
    return *static_cast<PerClass*>(rq.elevator_data);
  }
  void note_time(Instant now) {
    if (now_ < now) now_ = now;
  }
  void insert_one(Request& rq, RequestList& merged);
  void link(Request& rq, SortedRequests::iterator before);
  void unlink(Request& rq);
  void count_link(PerClass& io_class, bool linked);

  [[nodiscard]] Request* first_from(const PerClass& io_class, unsigned direction) const;
  [[nodiscard]] Choice choose(const PerClass& io_class) const;
  [[nodiscard]] Request* pick(PerClass& io_class, Instant limit);
  [[nodiscard]] Request* pick_aged();
  void start(Request& rq);
  void note_wake();
  [[nodiscard]] Duration aging() const;

  // For SortedMerge. A request of another lane is not there to be merged with: the operation and
  // the priority are of the rules of any merge.
  [[nodiscard]] static Lane& place_of(const Request& rq) {
    return class_of(rq).lanes[direction(rq.op)];
  }
  [[nodiscard]] static bool is_in(const Request&, const Lane&) { return true; }
  [[nodiscard]] static SortedRequests& order(Lane& lane) { return lane.order; }
  [[nodiscard]] static RequestFifo& fifo(Lane& lane) { return lane.fifo; }
  [[nodiscard]] bool front_merges() const { return tunables_.front_merges != 0; }
  void merged_away(Request& rq, RequestList& merged);
  void replaced(const Request&, const Request&) {}
  void grown(const Request&, Sector, Sector) {}
  void moved(const Request&) {}
  void changed(const Request&) {}

  MqDeadlineTunables tunables_;
  std::array<PerClass, kClasses> classes_;
  RequestList dispatch_list_;
  unsigned last_direction_ = 1;
  std::uint32_t batching_ = 0;
  std::uint32_t starved_ = 0;
  Instant now_;
  std::optional<Instant> wake_at_;
  std::atomic<std::uint32_t> shallow_{Sbitmap::kUnlimited};
};

}  // namespace elevd::sched
