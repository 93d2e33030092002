// SPDX-License-Identifier: Apache-2.0
// The invariants of docs/spec/mq-deadline.md section 12 with random arrivals, completions and
// tunables, on the elevator alone. A failure is replayed with ELEVD_SEED.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "random.hpp"
#include "sched/mq_deadline.hpp"

using namespace elevd::sched;
using elevd::sched::test::Random;

namespace {

constexpr std::size_t kRequests = 96;
constexpr std::uint64_t kSectors = 4096;

class MqDeadlineModel {
 public:
  explicit MqDeadlineModel(std::uint64_t seed, bool one_class)
      : random_(seed), one_class_(one_class) {
    elevator_.attach({&limits_, &nomerges_});
    limits_.max_sectors = {64};
    for (std::size_t n = 0; n < kRequests; ++n) free_.push_back(n);
  }

  /// What was dispatched, as text.
  std::string run(unsigned steps) {
    for (unsigned n = 0; n < steps; ++n) {
      step();
      elevator_.check();
      balance();
    }
    elevator_.tunables().prio_aging_expire_ms = 0;
    while (elevator_.has_work() || !out_.empty()) {
      dispatch();
      if (!out_.empty()) complete();
    }
    CHECK(submitted_ == dispatched_);
    for (unsigned c = 0; c < MqDeadline::kClasses; ++c) {
      CHECK(elevator_.queued(c) == 0);
      CHECK(elevator_.owned_by_driver(c) == 0);
    }
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
        break;
      case 4:
      case 5:
        if (!out_.empty()) complete();
        break;
      default:
        dispatch();
    }
  }

  void tune() {
    MqDeadlineTunables& tunables = elevator_.tunables();
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
  }

  /// Fills `bio`; the place is on a grid, so that neighbours are many.
  void make(Bio& bio) {
    bio.op = random_.one_in(2) ? Op::read : Op::write;
    bio.start = Sector{8 * random_(kSectors / 8)};
    bio.length = Sectors{8 * (1 + random_(3))};
    bio.next = nullptr;
    const std::uint64_t io_class = one_class_ ? 1 : random_(3);
    bio.priority = io_class == 0   ? IoPriority::real_time(0)
                   : io_class == 2 ? IoPriority::idle()
                                   : IoPriority::best_effort(4);
  }

  void count(const Bio& bio, std::vector<std::uint32_t>& sectors) const {
    const std::size_t at = (bio.op == Op::read ? 0 : 1) * (kSectors + 64);
    for (std::uint64_t n = 0; n < bio.length.value; ++n) ++sectors[at + bio.start.value + n];
  }

  void insert() {
    RequestList list;
    for (std::uint64_t n = 1 + random_(4); n != 0 && !free_.empty(); --n) {
      const std::size_t index = free_.back();
      free_.pop_back();
      Request& rq = requests_[index];
      Bio& bio = *bios_.emplace_back(std::make_unique<Bio>());
      make(bio);
      count(bio, submitted_);
      rq.first = rq.last = &bio;
      rq.op = bio.op;
      rq.start = bio.start;
      rq.length = bio.length;
      rq.segment_count = 1;
      rq.priority = bio.priority;
      rq.flags = 0;
      if (random_.one_in(12)) rq.flags = kRqAtHead | kRqNoMerge;
      if (random_.one_in(3)) rq.flags |= kRqLookupSkipped;
      rq.elevator_data = nullptr;
      list.push_back(rq);
    }
    RequestList merged;
    elevator_.insert(list, merged, now_);
    CHECK(list.empty());
    take_back(merged);
  }

  void merge_bio() {
    auto bio = std::make_unique<Bio>();
    make(*bio);
    RequestList merged;
    const MergeResult kind = elevator_.bio_merge(*bio, merged, now_);
    take_back(merged);
    if (kind != MergeResult::back && kind != MergeResult::front) return;
    count(*bio, submitted_);
    bios_.push_back(std::move(bio));
  }

  void take_back(RequestList& merged) {
    while (!merged.empty()) {
      Request& rq = merged.front();
      merged.pop_front();
      CHECK(rq.first == nullptr);
      free_.push_back(static_cast<std::size_t>(&rq - requests_.data()));
    }
  }

  void dispatch() {
    const bool had_work = elevator_.has_work();
    const std::uint32_t batching = elevator_.batching();
    const Request* head_of_list =
        elevator_.dispatch_list().empty() ? nullptr : &elevator_.dispatch_list().front();
    std::array<std::uint32_t, MqDeadline::kClasses> queued{};
    std::array<std::array<const Request*, 2>, MqDeadline::kClasses> heads{};
    for (unsigned c = 0; c < MqDeadline::kClasses; ++c) {
      queued[c] = elevator_.queued(c);
      for (unsigned way = 0; way < 2; ++way) {
        const MqDeadline::Fifo& fifo = elevator_.fifo(c, way);
        heads[c][way] = fifo.empty() ? nullptr : &fifo.front();
      }
    }
    Request* rq = elevator_.dispatch(now_);
    if (rq == nullptr) {
      // Invariant 10: a class at the device holds lower ones back, and they age.
      CHECK((!had_work || elevator_.wake_at().has_value()));
      if (elevator_.wake_at()) CHECK(now_ < *elevator_.wake_at());
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
    if (elevator_.tunables().prio_aging_expire_ms == INT_MAX) {
      for (unsigned higher = 0; higher < c; ++higher) CHECK(queued[higher] == 0);
    }
    check_batch(*rq, batching, heads[c][way], way);
  }

  /// Invariants 4 and 6.
  void check_batch(const Request& rq, std::uint32_t before, const Request* head, unsigned way) {
    const std::uint32_t after = elevator_.batching();
    const auto most = static_cast<std::uint32_t>(elevator_.tunables().fifo_batch);
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
    Sector at = rq.start;
    for (const Bio* bio = rq.first; bio != nullptr; bio = bio->next) {
      CHECK(bio->start == at);
      CHECK(bio->op == rq.op);
      CHECK(bio->priority == rq.priority);
      at = bio->end();
      count(*bio, dispatched_);
    }
    CHECK(at == rq.end());
    CHECK(rq.length <= limits_.max_sectors);
    if ((rq.flags & kRqAtHead) != 0) at_head_since_ = true;
    log_ += (rq.op == Op::read ? "R" : "W") + std::to_string(rq.start.value) + "+" +
            std::to_string(rq.length.value) + " ";
  }

  void complete() {
    const std::size_t index = random_(out_.size());
    Request& rq = *out_[index];
    out_.erase(out_.begin() + static_cast<std::ptrdiff_t>(index));
    static_cast<void>(elevator_.completed(rq, now_));
    free_.push_back(static_cast<std::size_t>(&rq - requests_.data()));
  }

  /// Invariant 7, and that nothing is lost on the way.
  void balance() {
    std::size_t inside = elevator_.dispatch_list().size() + out_.size();
    for (unsigned c = 0; c < MqDeadline::kClasses; ++c) {
      for (unsigned way = 0; way < 2; ++way) {
        const MqDeadline::Fifo& fifo = elevator_.fifo(c, way);
        inside += fifo.size();
        if (tuned_) continue;
        CHECK(std::is_sorted(fifo.begin(), fifo.end(), [](const Request& a, const Request& b) {
          return MqDeadline::deadline(a) < MqDeadline::deadline(b);
        }));
      }
    }
    CHECK(inside + free_.size() == kRequests);
    const std::uint32_t queued = elevator_.queued(0) + elevator_.queued(1) + elevator_.queued(2);
    CHECK(queued == inside);
  }

  Random random_;
  bool one_class_;
  Limits limits_;
  std::atomic<unsigned> nomerges_{0};
  std::array<Request, kRequests> requests_;
  std::vector<std::unique_ptr<Bio>> bios_;
  MqDeadline elevator_;
  std::vector<std::size_t> free_;
  std::vector<Request*> out_;
  Instant now_{1'000'000'000};
  std::vector<std::uint32_t> submitted_ = std::vector<std::uint32_t>(2 * (kSectors + 64));
  std::vector<std::uint32_t> dispatched_ = std::vector<std::uint32_t>(2 * (kSectors + 64));
  std::string log_;
  bool tuned_ = false;
  unsigned direction_ = 1;
  std::uint64_t last_start_ = 0;
  bool at_head_since_ = false;
};

}  // namespace

TEST_SUITE("mq-deadline properties") {
  TEST_CASE("random arrivals, completions and tunables") {
    for (const std::uint64_t seed : elevd::sched::test::seeds(60)) {
      CAPTURE(seed);
      for (const bool one_class : {true, false}) {
        CAPTURE(one_class);
        auto first = std::make_unique<MqDeadlineModel>(seed, one_class);
        auto second = std::make_unique<MqDeadlineModel>(seed, one_class);
        const std::string dispatched = first->run(1500);
        CHECK(!dispatched.empty());
        CHECK(dispatched == second->run(1500));  // invariant 12
      }
    }
  }
}
