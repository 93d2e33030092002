// SPDX-License-Identifier: Apache-2.0
// The invariants of docs/spec/mq-deadline.md section 12 with random arrivals, completions,
// tunables and switches, on the elevator alone. A failure is replayed with ELEVD_SEED.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "random.hpp"
#include "request_pool.hpp"
#include "sched/mq_deadline.hpp"

using namespace elevd::sched;
using elevd::sched::test::Random;
using elevd::sched::test::RequestPool;
using elevd::sched::test::SectorCounts;

namespace {

constexpr std::size_t kRequests = 96;
constexpr std::uint64_t kSectors = 4096;

/// How often the random runs came to what an invariant speaks of: none of them may be never.
struct Seen {
  unsigned equal_positions = 0;  ///< a dispatch in sorted order with a later one at its place
  unsigned read_batches = 0;     ///< begun while writes waited
  unsigned limits_of_reads = 0;  ///< and it was the last that writes_starved allows
  unsigned late_writes = 0;      ///< dispatches past an expired write that was first
  unsigned late_reads = 0;
  unsigned switches = 0;
};

/// Bounds on what may be dispatched before an expired request that is first in its fifo, and on
/// the batches of reads before writes: invariants 5, 14, 15. One class; from the last change of a
/// tunable on.
class Patience {
 public:
  explicit Patience(Seen& seen) : seen_(seen) {}

  void tunables_changed() {
    reads_past_writes_ = 0;
    for (Waiting& waiting : waiting_) waiting = {};
  }

  /// Before a dispatch: the heads of the two fifos, null: empty.
  void before(const std::array<const Request*, 2>& heads, Instant now) {
    for (unsigned way = 0; way < 2; ++way) {
      Waiting& waiting = waiting_[way];
      const Request* const head = heads[way];
      const bool expired = head != nullptr && now >= MqDeadline::deadline(*head);
      if (!expired || waiting.head != head) waiting = {expired ? head : nullptr, 0};
    }
    writes_wait_ = heads[1] != nullptr;
  }

  /// After it. `begins`: the request is the first of its batch.
  void after(const Request& rq, bool begins, const MqDeadlineTunables& tunables) {
    const unsigned way = rq.op == Op::read ? 0 : 1;
    const auto batch = static_cast<std::uint64_t>(std::max(tunables.fifo_batch, 1));
    const std::int64_t starved = tunables.writes_starved;
    if (begins && way == 1) reads_past_writes_ = 0;
    if (begins && way == 0 && writes_wait_ && starved >= 0) {
      ++seen_.read_batches;
      if (++reads_past_writes_ == starved) ++seen_.limits_of_reads;
      CHECK(reads_past_writes_ <= starved);
    }
    passed(rq, 1, starved >= 0, (static_cast<std::uint64_t>(starved) + 1) * batch,
           seen_.late_writes);
    passed(rq, 0, starved >= 1, 2 * batch, seen_.late_reads);
  }

 private:
  struct Waiting {
    const Request* head = nullptr;  ///< expired
    std::uint64_t passed_by = 0;
  };

  void passed(const Request& rq, unsigned way, bool bounded, std::uint64_t most, unsigned& seen) {
    Waiting& waiting = waiting_[way];
    if (waiting.head == nullptr) return;
    if (waiting.head == &rq) {
      waiting = {};
      return;
    }
    ++seen;
    ++waiting.passed_by;
    if (bounded) CHECK(waiting.passed_by <= most);
  }

  Seen& seen_;
  std::array<Waiting, 2> waiting_;
  bool writes_wait_ = false;
  std::int64_t reads_past_writes_ = 0;
};

class MqDeadlineModel {
 public:
  explicit MqDeadlineModel(std::uint64_t seed, bool one_class, Seen& seen)
      : random_(seed), one_class_(one_class), seen_(seen), patience_(seen) {
    // Few places in half of the runs: many requests at the same one.
    places_ = random_.one_in(2) ? kSectors / 8 : 24;
    elevator_->attach({&limits_, &nomerges_});
    limits_.max_sectors = {64};
  }

  /// What was dispatched, as text.
  std::string run(unsigned steps) {
    for (unsigned n = 0; n < steps; ++n) {
      step();
      elevator_->check();
      balance();
    }
    drain();
    return log_;
  }

 private:
  void step() {
    now_.ns += static_cast<std::int64_t>(random_(4'000'000));
    switch (random_(8)) {
      case 0:
      case 1:
        insert();
        break;
      case 2:
        merge_bio();
        break;
      case 3:
        if (random_.one_in(4)) tune();
        if (random_.one_in(24)) switch_elevator();
        break;
      case 4:
      case 5:
        if (!out_.empty()) complete();
        break;
      default:
        dispatch();
    }
  }

  /// Everything leaves, as it does when the queue is frozen.
  void drain() {
    elevator_->tunables().prio_aging_expire_ms = 0;
    while (elevator_->has_work() || !out_.empty()) {
      dispatch();
      if (!out_.empty()) complete();
    }
    CHECK(submitted_ == dispatched_);
    for (unsigned c = 0; c < MqDeadline::kClasses; ++c) {
      CHECK(elevator_->queued(c) == 0);
      CHECK(elevator_->owned_by_driver(c) == 0);
    }
  }

  /// Away and back: a fresh elevator with the default tunables.
  void switch_elevator() {
    drain();
    elevator_ = std::make_unique<MqDeadline>();
    elevator_->attach({&limits_, &nomerges_});
    direction_ = 1;
    last_start_ = 0;
    at_head_since_ = false;
    tuned_ = false;
    patience_.tunables_changed();
    ++seen_.switches;
    log_ += "switch ";
  }

  void tune() {
    MqDeadlineTunables& tunables = elevator_->tunables();
    constexpr std::array<std::int32_t, 6> kBatches = {0, 1, 2, 3, 4, 16};
    constexpr std::array<std::int32_t, 5> kStarved = {-1, 0, 1, 2, 3};
    tunables.fifo_batch = kBatches[random_(6)];
    tunables.writes_starved = kStarved[random_(5)];
    tunables.read_expire_ms = random_.one_in(3) ? 0 : 50;
    tunables.write_expire_ms = random_.one_in(3) ? 0 : 100;
    tunables.front_merges = random_.one_in(4) ? 0 : 1;
    tunables.prio_aging_expire_ms = random_.one_in(2) ? INT_MAX : 20;
    nomerges_ = random_.one_in(5) ? 1U : 0U;
    tuned_ = true;
    patience_.tunables_changed();
  }

  /// Fills `bio`; the place is on a grid, so that neighbours are many.
  void make(Bio& bio) {
    bio.op = random_.one_in(2) ? Op::read : Op::write;
    bio.start = Sector{8 * random_(places_)};
    bio.length = Sectors{8 * (1 + random_(3))};
    bio.next = nullptr;
    const std::uint64_t io_class = one_class_ ? 1 : random_(3);
    bio.priority = io_class == 0   ? IoPriority::real_time(0)
                   : io_class == 2 ? IoPriority::idle()
                                   : IoPriority::best_effort(4);
  }

  void insert() {
    RequestList list;
    std::vector<const Request*> order;
    for (std::uint64_t n = 1 + random_(4); n != 0 && pool_.available() != 0; --n) {
      Request& rq = pool_.take([this](Bio& bio) { make(bio); });
      submitted_.add(*rq.first);
      if (random_.one_in(12)) rq.flags = kRqAtHead | kRqNoMerge;
      if (random_.one_in(3)) rq.flags |= kRqLookupSkipped;
      list.push_back(rq);
      order.push_back(&rq);
    }
    RequestList merged;
    elevator_->insert(list, merged, now_);
    CHECK(list.empty());
    pool_.put_merged(merged);
    for (const Request* rq : order) place_number_[pool_.index_of(*rq)] = ++places_taken_;
  }

  void merge_bio() {
    auto bio = std::make_unique<Bio>();
    make(*bio);
    RequestList merged;
    const MergeResult kind = elevator_->bio_merge(*bio, merged, now_);
    pool_.put_merged(merged);
    if (kind != MergeResult::back && kind != MergeResult::front) return;
    // A request that grew at its front has a new place, behind those that have it already.
    for (const Request& rq : pool_.requests()) {
      if (rq.first == bio.get()) place_number_[pool_.index_of(rq)] = ++places_taken_;
    }
    submitted_.add(*bio);
    pool_.keep(std::move(bio));
  }

  void dispatch() {
    const bool had_work = elevator_->has_work();
    const std::uint32_t batching = elevator_->batching();
    const Request* head_of_list =
        elevator_->dispatch_list().empty() ? nullptr : &elevator_->dispatch_list().front();
    std::array<std::uint32_t, MqDeadline::kClasses> queued{};
    std::array<std::array<const Request*, 2>, MqDeadline::kClasses> heads{};
    for (unsigned c = 0; c < MqDeadline::kClasses; ++c) {
      queued[c] = elevator_->queued(c);
      for (unsigned way = 0; way < 2; ++way) {
        const RequestFifo& fifo = elevator_->fifo(c, way);
        heads[c][way] = fifo.empty() ? nullptr : &fifo.front();
      }
    }
    if (one_class_) patience_.before(heads[1], now_);
    Request* rq = elevator_->dispatch(now_);
    if (rq == nullptr) {
      // Invariant 10: a class at the device holds lower ones back, and they age.
      CHECK((!had_work || elevator_->wake_at().has_value()));
      if (elevator_->wake_at()) CHECK(now_ < *elevator_->wake_at());
      return;
    }
    out_.push_back(rq);
    note(*rq);
    if (head_of_list != nullptr) {
      CHECK(rq == head_of_list);
      return;
    }
    const unsigned c = MqDeadline::class_of(rq->priority);
    const unsigned way = rq->op == Op::read ? 0 : 1;
    if (elevator_->tunables().prio_aging_expire_ms == INT_MAX) {
      for (unsigned higher = 0; higher < c; ++higher) CHECK(queued[higher] == 0);
    }
    check_batch(*rq, batching, heads[c][way], way);
    const bool begins = elevator_->batching() == 1;
    if (!begins || rq != heads[c][way]) check_place(*rq, c, way);
    if (one_class_) patience_.after(*rq, begins, elevator_->tunables());
  }

  /// Invariant 11. What was taken as the oldest has not been taken in sorted order.
  void check_place(const Request& rq, unsigned io_class, unsigned way) {
    for (const Request& other : elevator_->fifo(io_class, way)) {
      if (other.start != rq.start) continue;
      ++seen_.equal_positions;
      CHECK(place_number_[pool_.index_of(rq)] < place_number_[pool_.index_of(other)]);
    }
  }

  /// Invariants 4 and 6.
  void check_batch(const Request& rq, std::uint32_t before, const Request* head, unsigned way) {
    const std::uint32_t after = elevator_->batching();
    const auto most = static_cast<std::uint32_t>(elevator_->tunables().fifo_batch);
    CHECK(after <= std::max(std::max(most, 1U), before + 1));
    const bool goes_on = after == before + 1 && before != 0;
    if (goes_on) {
      CHECK(before < most);
      CHECK(way == direction_);
      if (one_class_ && !at_head_since_) CHECK(last_start_ <= rq.start.value);
    } else if (before != 0) {
      CHECK(after == 1);
      // With several classes a failed probe for age may have begun the batch.
      if (one_class_ && now_ >= MqDeadline::deadline(*head)) CHECK(&rq == head);
    }
    direction_ = way;
    last_start_ = rq.start.value;
    at_head_since_ = false;
  }

  void note(const Request& rq) {
    dispatched_.add(rq);
    CHECK(rq.length <= limits_.max_sectors);
    if ((rq.flags & kRqAtHead) != 0) at_head_since_ = true;
    log_ += (rq.op == Op::read ? "R" : "W") + std::to_string(rq.start.value) + "+" +
            std::to_string(rq.length.value) + " ";
  }

  void complete() {
    Request& rq = elevd::sched::test::take_random(out_, random_);
    static_cast<void>(elevator_->completed(rq, now_));
    rq.first = nullptr;
    pool_.put(rq);
  }

  /// Invariant 7, and that nothing is lost on the way.
  void balance() {
    std::size_t inside = elevator_->dispatch_list().size() + out_.size();
    for (unsigned c = 0; c < MqDeadline::kClasses; ++c) {
      for (unsigned way = 0; way < 2; ++way) {
        const RequestFifo& fifo = elevator_->fifo(c, way);
        inside += fifo.size();
        if (tuned_) continue;
        CHECK(std::is_sorted(fifo.begin(), fifo.end(), [](const Request& a, const Request& b) {
          return MqDeadline::deadline(a) < MqDeadline::deadline(b);
        }));
      }
    }
    CHECK(inside + pool_.available() == kRequests);
    const std::uint32_t queued = elevator_->queued(0) + elevator_->queued(1) + elevator_->queued(2);
    CHECK(queued == inside);
  }

  Random random_;
  bool one_class_;
  Seen& seen_;
  Patience patience_;
  std::uint64_t places_ = 0;  ///< how many bios can begin at
  Limits limits_;
  std::atomic<unsigned> nomerges_{0};
  RequestPool<kRequests> pool_;
  std::unique_ptr<MqDeadline> elevator_ = std::make_unique<MqDeadline>();
  std::array<std::uint64_t, kRequests> place_number_{};  ///< when it got its place in the tree
  std::uint64_t places_taken_ = 0;
  std::vector<Request*> out_;
  Instant now_{1'000'000'000};
  SectorCounts submitted_{kSectors};
  SectorCounts dispatched_{kSectors};
  std::string log_;
  bool tuned_ = false;
  unsigned direction_ = 1;
  std::uint64_t last_start_ = 0;
  bool at_head_since_ = false;
};

}  // namespace

TEST_SUITE("mq-deadline properties") {
  TEST_CASE("random arrivals, completions and tunables") {
    Seen seen;
    const auto seeds = elevd::sched::test::seeds(60);
    for (const std::uint64_t seed : seeds) {
      CAPTURE(seed);
      for (const bool one_class : {true, false}) {
        CAPTURE(one_class);
        auto first = std::make_unique<MqDeadlineModel>(seed, one_class, seen);
        auto second = std::make_unique<MqDeadlineModel>(seed, one_class, seen);
        const std::string dispatched = first->run(1500);
        CHECK(!dispatched.empty());
        CHECK(dispatched == second->run(1500));  // invariant 12
      }
    }
    if (seeds.size() < 20) return;  // a failure is being replayed
    CHECK(seen.equal_positions > 1000);
    CHECK(seen.read_batches > 1000);
    CHECK(seen.limits_of_reads > 1000);
    CHECK(seen.late_writes > 1000);
    CHECK(seen.late_reads > 1000);
    CHECK(seen.switches > 100);
  }
}
