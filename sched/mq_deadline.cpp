// SPDX-License-Identifier: Apache-2.0
// Insertion, dispatch and completion of MqDeadline. Merging: mq_deadline_merge.cpp.
#include "mq_deadline.hpp"

#include <algorithm>

#include "assertion.hpp"

namespace elevd::sched {
namespace {

constexpr unsigned kBestEffort = 1;
constexpr unsigned kIdle = 2;
constexpr Duration kPoll{3'000'000};

constexpr Duration milliseconds(std::int32_t ms) { return {std::int64_t{ms} * 1'000'000}; }

}  // namespace

MqDeadline::~MqDeadline() {
  ELEVD_ASSERT(dispatch_list_.empty() && last_merge() == nullptr);
  for (unsigned c = 0; c < kClasses; ++c) {
    ELEVD_ASSERT(fifo(c, 0).empty() && fifo(c, 1).empty() && queued(c) == 0);
  }
}

/// No class is best effort.
unsigned MqDeadline::class_of(IoPriority priority) {
  switch (priority.io_class()) {
    case 1:
      return 0;
    case 3:
      return kIdle;
    default:
      return kBestEffort;
  }
}

// --- Insertion (section 4) --------------------------------------------------------------------

void MqDeadline::insert(RequestList& list, RequestList& merged, Instant now) {
  note_time(now);
  expect(list);
  while (!list.empty()) {
    Request& rq = list.front();
    list.pop_front();
    insert_one(rq, merged);
  }
}

void MqDeadline::insert_one(Request& rq, RequestList& merged) {
  if (rq.elevator_data == nullptr) {
    PerClass& io_class = classes_[class_of(rq.priority)];
    rq.elevator_data = &io_class;
    ++io_class.inserted;
    io_class.queued.fetch_add(1, std::memory_order_seq_cst);
  }
  const unsigned way = direction(rq.op);
  const std::int32_t expire = way == 0 ? tunables_.read_expire_ms : tunables_.write_expire_ms;
  const bool at_head = (rq.flags & kRqAtHead) != 0;
  rq.inserted = now_;
  rq.elevator_word = static_cast<std::uint64_t>((at_head ? now_ : now_ + milliseconds(expire)).ns);
  const auto before = merge_in(rq, merged);
  if (!before) return;
  if (at_head) {
    dispatch_list_.push_front(rq);
    return;
  }
  place_of(rq).fifo.push_back(rq);
  link(rq, *before);
  link_merge(rq);
}

/// Into the tree; it is in the fifo already.
void MqDeadline::link(Request& rq, SortedRequests::iterator before) {
  place_of(rq).order.insert_before(before, rq);
  class_of(rq).on_fifo.fetch_add(1, std::memory_order_seq_cst);
}

/// Out of everything it is in (section 5.5).
void MqDeadline::unlink(Request& rq) {
  if (rq.fifo_hook.is_linked()) {
    Lane& lane = place_of(rq);
    lane.fifo.erase(lane.fifo.iterator_to(rq));
    lane.order.erase(lane.order.iterator_to(rq));
    class_of(rq).on_fifo.fetch_sub(1, std::memory_order_seq_cst);
  }
  unlink_merge(rq);
}

// --- Dispatch (section 6) ---------------------------------------------------------------------

bool MqDeadline::has_work() const { return !dispatch_list_.empty() || has_candidates(); }

bool MqDeadline::has_candidates() const {
  return std::any_of(classes_.begin(), classes_.end(), [](const PerClass& io_class) {
    return io_class.on_fifo.load(std::memory_order_seq_cst) != 0;
  });
}

Request* MqDeadline::dispatch(Instant now) {
  note_time(now);
  wake_at_.reset();
  if (!dispatch_list_.empty()) {
    Request& rq = dispatch_list_.front();
    dispatch_list_.pop_front();
    start(rq);
    return &rq;
  }
  if (Request* aged = pick_aged()) return aged;
  for (unsigned c = 0; c < kClasses; ++c) {
    if (Request* rq = pick(classes_[c], now_)) return rq;
    if (queued(c) != 0) break;
  }
  note_wake();
  return nullptr;
}

Request* MqDeadline::first_from(const PerClass& io_class, unsigned direction) const {
  const Lane& lane = io_class.lanes[direction];
  const auto it = lane.order.lower_bound(lane.latest, ByStart{});
  return it == lane.order.end() ? nullptr : const_cast<Request*>(&*it);
}

const Request* MqDeadline::next_request(unsigned io_class, unsigned direction) const {
  return first_from(classes_[io_class], direction);
}

/// Steps 1 to 3 of section 6.1.
MqDeadline::Choice MqDeadline::choose(const PerClass& io_class) const {
  Choice choice;
  choice.starved = starved_;
  choice.direction = last_direction_;
  choice.rq = first_from(io_class, last_direction_);
  if (choice.rq != nullptr && batching_ < static_cast<std::uint32_t>(tunables_.fifo_batch)) {
    return choice;
  }
  const bool reads = !io_class.lanes[0].fifo.empty();
  const bool writes = !io_class.lanes[1].fifo.empty();
  choice.rq = nullptr;
  if (!reads && !writes) return choice;
  choice.direction = reads ? 0 : 1;
  if (reads && writes) {
    // Unsigned, so that a negative number is no limit.
    if (choice.starved >= static_cast<std::uint32_t>(tunables_.writes_starved)) {
      choice.direction = 1;
    }
    ++choice.starved;
  }
  if (choice.direction == 1) choice.starved = 0;
  choice.new_batch = true;
  choice.rq = first_from(io_class, choice.direction);
  const Request& head = io_class.lanes[choice.direction].fifo.front();
  if (choice.rq == nullptr || now_ >= deadline(head)) choice.rq = const_cast<Request*>(&head);
  return choice;
}

/// The age test looks at the arrival as it was, whatever the expire tunables are now (a decided
/// difference). The direction is changed also if that test then says no, as in the kernel.
Request* MqDeadline::pick(PerClass& io_class, Instant limit) {
  const Choice choice = choose(io_class);
  if (choice.rq == nullptr) return nullptr;
  if (choice.new_batch) {
    last_direction_ = choice.direction;
    batching_ = 0;
    starved_ = choice.starved;
  }
  if (limit < choice.rq->inserted) return nullptr;
  ++batching_;
  unlink(*choice.rq);
  start(*choice.rq);
  return choice.rq;
}

/// Section 6.3: only with two classes at work; real-time requests do not age.
Request* MqDeadline::pick_aged() {
  unsigned at_work = 0;
  for (unsigned c = 0; c < kClasses; ++c) at_work += queued(c) != 0 ? 1U : 0U;
  if (at_work < 2) return nullptr;
  for (unsigned c = kBestEffort; c < kClasses; ++c) {
    if (Request* rq = pick(classes_[c], now_ + (Duration{} - aging()))) return rq;
  }
  return nullptr;
}

Duration MqDeadline::aging() const { return milliseconds(tunables_.prio_aging_expire_ms); }

void MqDeadline::start(Request& rq) {
  PerClass& io_class = class_of(rq);
  place_of(rq).latest = rq.start;
  ++io_class.dispatched;
}

/// A class that is held back is asked again when what it would give is old enough. That may be so
/// already (a probe turned the direction): then it is asked as soon as the kernel would.
void MqDeadline::note_wake() {
  for (unsigned c = kBestEffort; c < kClasses; ++c) {
    const Request* rq = choose(classes_[c]).rq;
    if (rq == nullptr) continue;
    Instant at = rq->inserted + aging();
    if (at <= now_) at = now_ + kPoll;
    if (!wake_at_ || at < *wake_at_) wake_at_ = at;
  }
}

/// Without the lock: who sees the last one of a class go, and lower classes with work, has the
/// queue run; a dispatcher that still saw it there is followed by that run.
bool MqDeadline::completed(Request& rq, Instant) {
  if (rq.elevator_data == nullptr) return false;
  PerClass& io_class = class_of(rq);
  rq.elevator_data = nullptr;
  if (io_class.queued.fetch_sub(1, std::memory_order_seq_cst) != 1) return false;
  for (PerClass* lower = &io_class + 1; lower != classes_.data() + kClasses; ++lower) {
    if (lower->on_fifo.load(std::memory_order_seq_cst) != 0) return true;
  }
  return false;
}

// --- Depth (section 8) ------------------------------------------------------------------------

/// Everything that is not a read has async_depth, and one class: nobody of them is less limited
/// than another. With all tags to take they stand in one line with the reads.
DepthLimit MqDeadline::limit(const Bio& bio) const {
  const std::uint32_t shallow = shallow_.load(std::memory_order_relaxed);
  if (bio.is_sync_read() || shallow == Sbitmap::kUnlimited) return {};
  return {DepthClass::async, shallow};
}

std::uint32_t MqDeadline::depth_updated(std::uint32_t nr_requests, std::uint32_t async_depth) {
  shallow_.store(async_depth < nr_requests ? async_depth : Sbitmap::kUnlimited,
                 std::memory_order_relaxed);
  return async_depth;
}

// --- Invariants -------------------------------------------------------------------------------

void MqDeadline::check() const {
  std::size_t linked = 0;
  bool last_merge_is_queued = last_merge() == nullptr;
  for (const PerClass& io_class : classes_) {
    std::uint32_t waiting = 0;
    for (unsigned way = 0; way < kDirections; ++way) {
      const Lane& lane = io_class.lanes[way];
      ELEVD_ASSERT(lane.fifo.size() == lane.order.size());
      for (const Request& rq : lane.fifo) {
        ELEVD_ASSERT(rq.sort_hook.is_linked() && direction(rq.op) == way);
        ELEVD_ASSERT(&class_of(rq) == &io_class && &classes_[class_of(rq.priority)] == &io_class);
        last_merge_is_queued = last_merge_is_queued || &rq == last_merge();
        linked += rq.hash_hook.is_linked() ? 1U : 0U;
        ++waiting;
      }
      ELEVD_ASSERT(std::is_sorted(lane.order.begin(), lane.order.end(), ByStart{}));
    }
    ELEVD_ASSERT(waiting == io_class.on_fifo.load());
    ELEVD_ASSERT(waiting <= io_class.queued.load());
  }
  ELEVD_ASSERT(last_merge_is_queued);
  std::size_t hashed = 0;
  hash().each([&hashed](const Request& rq) {
    ELEVD_ASSERT(rq.fifo_hook.is_linked() && mergeable(rq));
    ++hashed;
  });
  ELEVD_ASSERT(hashed == linked);
  for (const Request& rq : dispatch_list_) {
    ELEVD_ASSERT(!rq.fifo_hook.is_linked() && !rq.sort_hook.is_linked());
    ELEVD_ASSERT(!rq.hash_hook.is_linked());
  }
}

}  // namespace elevd::sched
