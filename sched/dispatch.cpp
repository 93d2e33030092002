// SPDX-License-Identifier: Apache-2.0
// The second half of RequestQueue: from the plug to the driver, and back from the driver.
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>

#include "assertion.hpp"
#include "request_queue.hpp"

namespace elevd::sched {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;

/// Nanoseconds, 0 if `begin` was read from the clock of a worker that is ahead: each reads it once
/// a turn.
std::uint64_t time_since(Instant begin, Instant now) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>((now - begin).ns, 0));
}

unsigned direction(Op op) { return op == Op::read ? 0 : 1; }

/// `worker` comes to it when it runs queues.
void note(Worker& worker, QueueContext& context) {
  if (!context.is_linked()) worker.runs.push_back(context);
}

}  // namespace

// --- From the plug ----------------------------------------------------------------------------

void RequestQueue::unplug(Worker& worker, RequestList& list, bool from_schedule) {
  context(worker).plug_newest = nullptr;
  const bool direct = !elevator_ && !from_schedule && dispatch_busy() == 0 && !quiesced() &&
                      !residual_mark_.load(std::memory_order_relaxed);
  if (direct) issue_directly(worker, list);
  if (list.empty()) return;
  insert(worker, list);
  run(worker);
}

/// In plug order, until the driver refuses one; that one goes to the residual list, the rest stays
/// in `list` (docs/spec/none.md section 2).
void RequestQueue::issue_directly(Worker& worker, RequestList& list) {
  unsigned budget = worker.driver().budget(*this);
  while (!list.empty()) {
    if (budget == 0) {
      note_busy(true);
      return;
    }
    Request& rq = list.front();
    list.pop_front();
    start(worker, rq);
    if (!worker.driver().issue(rq)) {
      not_started(worker, rq);
      note_busy(true);
      const LockGuard guard(lock_);
      residual_.push_back(rq);
      residual_mark_.store(true, std::memory_order_seq_cst);
      return;
    }
    note_busy(false);
    --budget;
  }
}

/// Into the elevator. Into this worker's software queue where there is none, or where its lock is
/// held: who submits does not wait, whoever has the lock next takes it over from there.
void RequestQueue::insert(Worker& worker, RequestList& list) {
  QueueContext& context = this->context(worker);
  if (elevator_ != nullptr && try_lock(context)) {
    insert_into_elevator(worker, list);
    lock_.unlock();
    return;
  }
  if (worker.trace != nullptr && elevator_ == nullptr) {
    for (const Request& rq : list) {
      worker.trace->request_event(TraceEvent::inserted, rq, worker.now);
    }
  }
  const LockGuard guard(context.software_lock);
  while (!list.empty()) {
    Request& rq = list.front();
    list.pop_front();
    if ((rq.flags & kRqAtHead) != 0 && elevator_ == nullptr) {
      context.software_queue.push_front(rq);
    } else {
      context.software_queue.push_back(rq);
    }
  }
  software_pending_.fetch_or(std::uint64_t{1} << worker.index(), std::memory_order_seq_cst);
}

/// What waits in the software queues, then `list`: a worker's requests stay in order.
void RequestQueue::insert_into_elevator(Worker& worker, RequestList& list) {
  std::uint64_t pending = software_pending_.load(std::memory_order_seq_cst);
  if (pending == 0 && list.empty()) return;
  RequestList merged;
  for (; pending != 0; pending &= pending - 1) {
    QueueContext& from = *contexts_[static_cast<unsigned>(std::countr_zero(pending))];
    RequestList left;
    {
      const LockGuard guard(from.software_lock);
      left.swap(from.software_queue);
      software_pending_.fetch_and(~(pending & -pending), std::memory_order_seq_cst);
    }
    insert_list(worker, left, merged);
  }
  if (!list.empty()) insert_list(worker, list, merged);
  if (const auto at = elevator_->wake_at()) worker.bound_sleep(*at);
  // Under the lock: without it their bios may be answered and the queue frozen meanwhile.
  if (!merged.empty()) free_merged(worker, merged, MergePoint::insert);
}

/// One by one only to report each that was not merged away.
void RequestQueue::insert_list(Worker& worker, RequestList& list, RequestList& merged) {
  std::uint64_t count = 0;
  for (Request& rq : list) {
    rq.inserted = worker.now;
    rq.flags |= kRqInElevator;
    if (mergeable(rq)) ++count;
  }
  if (worker.trace == nullptr) {
    elevator_->insert(list, merged, worker.now);
  } else {
    insert_traced(worker, list, merged);
  }
  context(worker).counters.merge_attempts[static_cast<unsigned>(MergePoint::insert)].add(count);
}

void RequestQueue::insert_traced(Worker& worker, RequestList& list, RequestList& merged) {
  while (!list.empty()) {
    RequestList one;
    Request& rq = list.front();
    one.splice(one.end(), list, list.begin());
    elevator_->insert(one, merged, worker.now);
    if (rq.first != nullptr) worker.trace->request_event(TraceEvent::inserted, rq, worker.now);
  }
}

// --- One dispatcher (docs/architecture.md, rule 9) --------------------------------------------

void RequestQueue::run(Worker& worker) {
  if (runs_.fetch_add(1, std::memory_order_seq_cst) != 0) return;  // somebody will see it
  QueueContext& context = this->context(worker);
  context.runs_taken = 1;
  dispatch(worker, context);
}

void RequestQueue::run_later(Worker& worker) {
  QueueContext& context = this->context(worker);
  context.wants_run = true;
  note(worker, context);
}

void RequestQueue::run_noted(Worker& worker) {
  QueueContext& context = this->context(worker);
  if (!context.completed.empty()) [[unlikely]] {
    tell_of_completed(worker, context);
  }
  const bool wanted = context.wants_run;
  context.wants_run = false;
  if (context.dispatching) {
    context.dispatching = false;
    dispatch(worker, context);  // it looks at everything: `wanted` is served by that too
    return;
  }
  if (wanted) run(worker);
}

void RequestQueue::drop_run(Worker& worker) {
  QueueContext& context = this->context(worker);
  context.wants_run = false;
  if (context.is_linked()) worker.runs.erase(worker.runs.iterator_to(context));
}

void RequestQueue::quiesce() {
  const LockGuard guard(lock_);
  quiesced_.store(true, std::memory_order_relaxed);
}

void RequestQueue::unquiesce(Worker& worker) {
  {
    const LockGuard guard(lock_);
    quiesced_.store(false, std::memory_order_relaxed);
  }
  run(worker);
}

/// REQUIRES: this worker is the dispatcher and answers for `runs_taken` runs.
void RequestQueue::dispatch(Worker& worker, QueueContext& context) {
  unsigned left = kDispatchesPerTurn;
  for (;;) {
    for (;;) {
      bool more = true;
      const unsigned issued = pull_and_issue(worker, left, more);
      if (issued == 0) break;
      left -= std::min(issued, left);
      if (!more) break;
      if (left == 0) {
        context.dispatching = true;
        note(worker, context);
        return;
      }
    }
    if (runs_.fetch_sub(context.runs_taken, std::memory_order_seq_cst) == context.runs_taken) {
      return;
    }
    // More runs were asked for meanwhile; all that are counted now are answered by the next look.
    context.runs_taken = runs_.load(std::memory_order_seq_cst);
  }
}

/// Pulls a batch under one lock hold and issues it without. Returns how many were issued. `more`:
/// it is worth to look again at once; else whoever changes that asks for a run.
unsigned RequestQueue::pull_and_issue(Worker& worker, unsigned most, bool& more) {
  RequestList batch;
  const unsigned budget = std::min(most, worker.driver().budget(*this));
  if (budget == 0) return 0;
  {
    const LockGuard guard(lock_);
    if (elevator_) {
      elevator_->timer(worker.now);
      RequestList nothing_else;
      insert_into_elevator(worker, nothing_else);
    }
    more = pull(worker, budget, batch) == budget ||
           (elevator_ && residual_.empty() && elevator_->has_work());
    if (const auto at = next_wake_up()) worker.bound_sleep(*at);
  }
  unsigned issued = 0;
  while (!batch.empty()) {
    Request& rq = batch.front();
    batch.pop_front();
    start(worker, rq);
    if (worker.driver().issue(rq)) {
      ++issued;
      note_busy(false);
      continue;
    }
    not_started(worker, rq);
    note_busy(true);
    batch.push_front(rq);
    give_back_hardware_tags(worker, batch);
    const LockGuard guard(lock_);
    // Before what was not taken from there, behind a FLUSH that came meanwhile.
    auto at = residual_.begin();
    if (at != residual_.end() && (at->flags & kRqFlush) != 0) ++at;
    residual_.splice(at, batch);
    residual_mark_.store(true, std::memory_order_seq_cst);
    return 0;  // the driver runs the queue again when it can take more
  }
  return issued;
}

unsigned RequestQueue::pull(Worker& worker, unsigned most, RequestList& batch) {
  if (quiesced()) return 0;
  unsigned n = 0;
  const bool had_residual = !residual_.empty();
  while (n < most && !residual_.empty()) {
    Request& rq = residual_.front();
    if (rq.tag < 0 && !take_hardware_tag(worker, rq)) return n;
    residual_.pop_front();
    batch.push_back(rq);
    ++n;
  }
  if (!residual_.empty()) return n;
  residual_mark_.store(false, std::memory_order_seq_cst);
  if (!elevator_) {
    const bool one_by_one = had_residual || dispatch_busy() != 0;
    return n + pull_software(most - n, one_by_one, batch);
  }
  while (n < most && elevator_->has_work()) {
    Request* rq = elevator_->dispatch(worker.now);
    if (rq == nullptr) break;
    rq->flags = static_cast<RequestFlags>(rq->flags & ~kRqInElevator);
    if (!take_hardware_tag(worker, *rq)) {
      // One request of look-ahead, as in the kernel: the tag is taken after the pull.
      residual_.push_back(*rq);
      residual_mark_.store(true, std::memory_order_seq_cst);
      break;
    }
    batch.push_back(*rq);
    ++n;
  }
  return n;
}

/// All pending software queues in worker order; or one request of each in turn, beginning after
/// the one served last (docs/spec/none.md section 3).
unsigned RequestQueue::pull_software(unsigned most, bool one_by_one, RequestList& batch) {
  unsigned n = 0;
  unsigned index = one_by_one ? (last_served_ + 1) % workers() : 0;
  std::uint64_t pending = software_pending_.load(std::memory_order_seq_cst);
  while (n < most && pending != 0) {
    const std::uint64_t bit = std::uint64_t{1} << index;
    if ((pending & bit) != 0) {
      QueueContext& from = *contexts_[index];
      const LockGuard guard(from.software_lock);
      while (n < most && !from.software_queue.empty()) {
        Request& rq = from.software_queue.front();
        from.software_queue.pop_front();
        batch.push_back(rq);
        ++n;
        last_served_ = index;
        if (one_by_one) break;
      }
      if (from.software_queue.empty()) {
        software_pending_.fetch_and(~bit, std::memory_order_seq_cst);
        pending &= ~bit;
      }
    }
    index = (index + 1) % workers();
  }
  return n;
}

/// The mark first, then once more: who frees a tag in between sees the mark (rule 10).
bool RequestQueue::take_hardware_tag(Worker& worker, Request& rq) {
  rq.tag = hardware_tags_->try_get(worker.index(), Sbitmap::kUnlimited);
  if (rq.tag >= 0) return true;
  restart_.store(true, std::memory_order_seq_cst);
  rq.tag = hardware_tags_->try_get(worker.index(), Sbitmap::kUnlimited);
  return rq.tag >= 0;
}

/// Refused requests keep no hardware tag while they wait: a FLUSH that goes before them needs one.
/// Nothing is restarted by that, the driver runs the queue when it has room. Without a scheduler
/// the tag is the request's own.
void RequestQueue::give_back_hardware_tags(Worker& worker, RequestList& batch) {
  if (!elevator_) return;
  BioList nobody;  // waits in this map while there is a scheduler
  for (Request& rq : batch) {
    hardware_tags_->put(static_cast<std::uint32_t>(rq.tag), worker.index(), nobody);
    rq.tag = -1;
  }
}

void RequestQueue::start(Worker& worker, Request& rq) {
  rq.flags |= kRqStarted;
  rq.issued = worker.now;
  rq.issuing_worker = static_cast<std::uint16_t>(worker.index());
  show_at_driver(rq, true);
  context(worker).counters.issued[direction(rq.op)].add(1);
  if (worker.trace != nullptr) worker.trace->request_event(TraceEvent::issued, rq, worker.now);
}

void RequestQueue::not_started(Worker& worker, Request& rq) {
  rq.flags = static_cast<RequestFlags>(rq.flags & ~kRqStarted);
  show_at_driver(rq, false);
  context(worker).counters.completed[direction(rq.op)].add(1);
  if (worker.trace != nullptr) worker.trace->request_event(TraceEvent::requeued, rq, worker.now);
}

/// Moving average of refusals; saturates at 9 (docs/spec/plug-and-merge.md section 6).
void RequestQueue::note_busy(bool busy) {
  const unsigned old = dispatch_busy_.load(std::memory_order_relaxed);
  if (old == 0 && !busy) return;
  dispatch_busy_.store((old * 7 + (busy ? 16U : 0U)) / 8, std::memory_order_relaxed);
}

// --- Back from the driver ---------------------------------------------------------------------

void RequestQueue::complete(Worker& worker, Request& rq, int error) {
  if (error != 0 && rq.error == 0) rq.error = error;
  show_at_driver(rq, false);
  context(worker).counters.completed[direction(rq.op)].add(1);
  if (worker.trace != nullptr) worker.trace->request_event(TraceEvent::completed, rq, worker.now);
  if ((rq.flags & (kRqFlush | kRqFlushSeq)) != 0) [[unlikely]] {
    complete_flush_step(worker, rq);
    return;
  }
  finish_request(worker, rq);
}

/// What the flush machine wants next: a FLUSH to the front of the residual list; requests whose
/// DATA step begins go to `data`.
void RequestQueue::flush_outcome(Worker& worker, FlushMachine::Outcome& out, RequestList& data) {
  if (out.flush != nullptr) {
    residual_.push_front(*out.flush);
    residual_mark_.store(true, std::memory_order_seq_cst);
    run_later(worker);
  }
  data.swap(out.data);
}

void RequestQueue::complete_flush_step(Worker& worker, Request& rq) {
  const bool is_flush = (rq.flags & kRqFlush) != 0;
  if (is_flush) {
    if ((rq.flags & kRqIoStat) != 0) {
      GroupCounters& group =
          context(worker).counters.groups[static_cast<unsigned>(StatGroup::flush)];
      group.ios.add(1);
      group.ticks_ns.add(time_since(rq.allocated, worker.now));
    }
    // Without a scheduler the tag is only borrowed from the first waiter.
    if (rq.internal_tag >= 0) free_hardware_tag(worker, rq);
  } else {
    if (elevator_) free_hardware_tag(worker, rq);
    rq.flags = static_cast<RequestFlags>(rq.flags & ~kRqStarted);
  }
  FlushMachine::Outcome out;
  RequestList data;
  {
    const LockGuard guard(lock_);
    if (is_flush) {
      flush_.flush_completed(rq.error, worker.now, out);
    } else {
      if (elevator_) {
        if (elevator_->completed(rq, worker.now)) run_later(worker);
        if (const auto at = elevator_->wake_at()) worker.bound_sleep(*at);
      }
      flush_.data_completed(rq, worker.now, out);
    }
    flush_outcome(worker, out, data);
  }
  if (!data.empty()) {
    // A DATA step behind a PREFLUSH is inserted at head (docs/spec/mq-deadline.md section 4).
    for (Request& step : data) step.flags |= kRqAtHead;
    insert(worker, data);
    run_later(worker);
  }
  while (!out.done.empty()) {
    Request& done = out.done.front();
    out.done.pop_front();
    done.flags = static_cast<RequestFlags>(done.flags & ~kRqFlushSeq);
    finish_request(worker, done);
  }
}

void RequestQueue::finish_request(Worker& worker, Request& rq) {
  WorkerCounters& counters = context(worker).counters;
  if ((rq.flags & kRqIoStat) != 0) {
    account_time(worker.now, true);
    GroupCounters& group = counters.groups[static_cast<unsigned>(stat_group(rq.op))];
    group.ios.add(1);
    group.sectors.add(rq.length.value);
    group.ticks_ns.add(time_since(rq.allocated, worker.now));
    counters.freed[direction(rq.op)].add(1);
  }
  if (elevator_ == nullptr || (rq.flags & kRqStarted) == 0) {
    free_and_answer(worker, rq);
  } else if (elevator_->completes_without_lock()) {
    if (elevator_->completed(rq, worker.now)) run_later(worker);
    free_and_answer(worker, rq);
  } else {
    QueueContext& context = this->context(worker);
    context.completed.push_back(rq);
    if (try_lock(context)) {
      finish_requests(worker, context);
    } else {
      note(worker, context);  // what is completed meanwhile goes with it, under one hold
    }
  }
}

/// What was completed while the lock was held. A later turn may find it free; the last one that may
/// be waits for it.
void RequestQueue::tell_of_completed(Worker& worker, QueueContext& context) {
  if (!try_lock(context)) {
    if (++context.turns_put_off < kMostTurnsPutOff) {
      note(worker, context);
      return;
    }
    lock_.lock();
  }
  finish_requests(worker, context);
}

/// Tells the elevator of all; what was held is let go.
/// REQUIRES: the lock is held, it is released here.
void RequestQueue::finish_requests(Worker& worker, QueueContext& context) {
  RequestList& list = context.completed;
  context.turns_put_off = 0;
  for (Request& rq : list) {
    if (elevator_->completed(rq, worker.now)) run_later(worker);
  }
  if (const auto at = elevator_->wake_at()) worker.bound_sleep(*at);
  lock_.unlock();
  while (!list.empty()) {
    Request& rq = list.front();
    list.pop_front();
    free_and_answer(worker, rq);
  }
}

void RequestQueue::free_and_answer(Worker& worker, Request& rq) {
  // The tags first: when a bio is finished, another worker may finish its last piece and answer it,
  // and then the queue may be frozen and its maps replaced.
  Bio* bio = rq.first;
  const int error = rq.error;
  // A split piece lives in the request, which is somebody else's once it is free; it is alone
  // there, and only the bio it was cut from counts.
  Bio* const cut = bio != nullptr ? bio->parent : nullptr;
  rq.first = nullptr;
  rq.last = nullptr;
  free_request(worker, rq);
  if (cut != nullptr) {
    finish(worker, *cut, error);
    return;
  }
  while (bio != nullptr) {
    Bio* next = bio->next;
    finish(worker, *bio, error);
    bio = next;
  }
}

void RequestQueue::free_hardware_tag(Worker& worker, Request& rq) {
  if (rq.tag < 0) return;
  const auto tag = static_cast<std::uint32_t>(rq.tag);
  rq.tag = -1;
  BioList woken;
  hardware_tags_->put(tag, rq.issuing_worker, woken);
  worker.hand_out(woken);
  if (restart_.load(std::memory_order_seq_cst) && restart_.exchange(false)) run_later(worker);
}

void RequestQueue::free_request(Worker& worker, Request& rq) {
  if (rq.internal_tag < 0) {
    const auto tag = static_cast<std::uint32_t>(rq.tag);
    BioList woken;
    hardware_tags_->put(tag, rq.worker, woken);
    worker.hand_out(woken);
    return;
  }
  free_hardware_tag(worker, rq);
  BioList woken;
  sched_tags_->put(static_cast<std::uint32_t>(rq.internal_tag), rq.worker, woken);
  worker.hand_out(woken);
}

/// Requests that were merged into others: in flight no more, their tags are free.
void RequestQueue::free_merged(Worker& worker, RequestList& merged, MergePoint at) {
  WorkerCounters& counters = context(worker).counters;
  while (!merged.empty()) {
    Request& rq = merged.front();
    merged.pop_front();
    counters.merge_hits[static_cast<unsigned>(at)].add(1);
    if ((rq.flags & kRqIoStat) != 0) {
      counters.groups[static_cast<unsigned>(stat_group(rq.op))].merges.add(1);
      counters.freed[direction(rq.op)].add(1);
    }
    if (worker.trace != nullptr) {
      worker.trace->request_event(TraceEvent::request_merged, rq, worker.now);
    }
    free_request(worker, rq);
  }
}

// --- Statistics -------------------------------------------------------------------------------

std::uint64_t RequestQueue::in_flight() const {
  std::uint64_t freed = 0;
  std::uint64_t allocated = 0;
  for (const auto& context : contexts_) {
    freed += context->counters.freed[0].get() + context->counters.freed[1].get();
  }
  for (const auto& context : contexts_) {
    allocated += context->counters.allocated[0].get() + context->counters.allocated[1].get();
  }
  return allocated - freed;
}

/// Adds the time since the last look to io_ticks if something was in flight; once a millisecond.
void RequestQueue::account_time(Instant now, bool end) {
  const std::int64_t ms = now.ns / kNsPerMs;
  std::int64_t stamp = stamp_ms_.load(std::memory_order_relaxed);
  if (ms <= stamp) [[likely]] {
    return;
  }
  if (!stamp_ms_.compare_exchange_strong(stamp, ms, std::memory_order_relaxed)) return;
  if (end || in_flight() != 0) {
    io_ticks_ms_.fetch_add(static_cast<std::uint64_t>(ms - stamp), std::memory_order_relaxed);
  }
}

Stats RequestQueue::stats(Instant now) {
  account_time(now, false);
  Stats sum;
  std::array<std::uint64_t, kStatGroups> ticks_ns{};
  for (const auto& context : contexts_) {
    const WorkerCounters& counters = context->counters;
    for (unsigned g = 0; g < kStatGroups; ++g) {
      sum.groups[g].ios += counters.groups[g].ios.get();
      sum.groups[g].merges += counters.groups[g].merges.get();
      sum.groups[g].sectors += counters.groups[g].sectors.get();
      ticks_ns[g] += counters.groups[g].ticks_ns.get();
    }
    for (unsigned p = 0; p < kMergePoints; ++p) {
      sum.merge_attempts[p] += counters.merge_attempts[p].get();
      sum.merge_hits[p] += counters.merge_hits[p].get();
    }
    sum.merge_skips += counters.merge_skips.get();
  }
  for (unsigned g = 0; g < kStatGroups; ++g) {
    sum.groups[g].ticks_ms = ticks_ns[g] / static_cast<std::uint64_t>(kNsPerMs);
  }
  for (unsigned d = 0; d < 2; ++d) {
    std::uint64_t done = 0;
    std::uint64_t issued = 0;
    for (const auto& context : contexts_) done += context->counters.completed[d].get();
    for (const auto& context : contexts_) issued += context->counters.issued[d].get();
    sum.at_driver[d] = issued - done;
  }
  sum.in_flight = in_flight();
  sum.io_ticks_ms = io_ticks_ms_.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace elevd::sched
