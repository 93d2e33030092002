// SPDX-License-Identifier: Apache-2.0
// Admission, merging, allocation and the plug. Dispatch and completion: dispatch.cpp.
#include "request_queue.hpp"

#include <algorithm>
#include <cerrno>

#include "assertion.hpp"

namespace elevd::sched {

RequestQueue::RequestQueue(const Options& options)
    : queue_depth_(options.queue_depth),
      groups_(options.groups),
      limits_(options.limits),
      nr_requests_(options.queue_depth),
      async_depth_(options.queue_depth) {
  ELEVD_ASSERT(options.workers >= 1 && options.workers <= 64);
  ELEVD_ASSERT(queue_depth_ >= 1 && queue_depth_ <= kMaxHardwareDepth);
  hardware_tags_ = std::make_unique<TagMap>(queue_depth_, queue_depth_, options.workers);
  for (unsigned w = 0; w < options.workers; ++w) {
    contexts_.push_back(std::make_unique<QueueContext>());
    contexts_.back()->queue = this;
  }
}

RequestQueue::~RequestQueue() { ELEVD_ASSERT(inside() == 0 && idle()); }

bool RequestQueue::idle() {
  const LockGuard guard(lock_);
  return residual_.empty() && flush_.idle() && software_pending_.load() == 0 &&
         (!elevator_ || !elevator_->has_work());
}

// --- Gate -------------------------------------------------------------------------------------

void RequestQueue::submit(Worker& worker, Bio& bio) {
  QueueContext& context = this->context(worker);
  bio.queue = this;
  bio.owner = static_cast<std::uint16_t>(worker.index());
  bio.origin = bio.start;
  bio.parent = nullptr;
  bio.pending.store(1, std::memory_order_relaxed);
  bio.error.store(0, std::memory_order_relaxed);
  if (worker.trace != nullptr) worker.trace->bio_event(TraceEvent::queued, bio, 0, worker.now);
  if (!context.gate_closed && context.gated.empty()) [[likely]] {
    enter(worker, context, bio);
    return;
  }
  if ((bio.flags & kBioNoWait) != 0) {
    context.counters.entered.add(1);
    finish(worker, bio, EAGAIN);
    return;
  }
  context.gated.push_back(bio);
}

void RequestQueue::close_gate(Worker& worker) { context(worker).gate_closed = true; }

void RequestQueue::open_gate(Worker& worker) {
  QueueContext& context = this->context(worker);
  context.gate_closed = false;
  while (!context.gated.empty()) {
    Bio& bio = context.gated.front();
    context.gated.pop_front();
    enter(worker, context, bio);
  }
  worker.flush_plug(false);
}

std::uint64_t RequestQueue::inside() const {
  // What left first: a bio that goes by in between is then counted as inside, never as -1.
  std::uint64_t left = 0;
  std::uint64_t entered = 0;
  for (const auto& context : contexts_) left += context->counters.left.get();
  for (const auto& context : contexts_) entered += context->counters.entered.get();
  return entered - left;
}

bool RequestQueue::leave(Worker& worker) {
  QueueContext& context = this->context(worker);
  context.counters.left.add(1);
  return context.gate_closed;
}

// --- Admission --------------------------------------------------------------------------------

/// Whole logical blocks, and an operation that is switched on; else the bio's error is set.
bool RequestQueue::admissible(Bio& bio) const {
  const std::uint64_t block = limits_.logical_block.value >> kSectorShift;
  if (((bio.start.value | bio.length.value) & (block - 1)) != 0) {
    bio.fail(EIO);
    return false;
  }
  if ((bio.op == Op::discard && limits_.max_discard.value == 0) ||
      (bio.op == Op::write_zeroes && limits_.max_write_zeroes.value == 0)) {
    bio.fail(EOPNOTSUPP);
    return false;
  }
  return bio.op == Op::flush || bio.length.value != 0;
}

void RequestQueue::enter(Worker& worker, QueueContext& context, Bio& bio) {
  context.counters.entered.add(1);
  if (!limits_.write_back) bio.flags = static_cast<BioFlags>(bio.flags & ~(kBioFua | kBioPreflush));
  const bool empty_flush = bio.op == Op::flush && (bio.flags & kBioPreflush) == 0;
  if (empty_flush || !admissible(bio)) [[unlikely]] {
    finish(worker, bio, 0);
    return;
  }
  place(worker, context, bio, false);
}

void RequestQueue::resume(Worker& worker, Bio& bio) { place(worker, context(worker), bio, true); }

/// Puts the bio, cut as needed, into requests, until it is all placed or parked. `resumed`: it was
/// woken for a tag; what was tried before it was parked (merging) is not tried again.
void RequestQueue::place(Worker& worker, QueueContext& context, Bio& bio, bool resumed) {
  bool privileged = resumed;
  for (;;) {
    const Sectors piece = first_piece(limits_, bio.op, bio.start, bio.length);
    const bool cut = piece < bio.length;
    if (cut) [[unlikely]] {
      if ((bio.flags & kBioNoWait) != 0) {
        finish(worker, bio, EAGAIN);  // docs/spec/plug-and-merge.md section 7
        return;
      }
      const bool begins = !resumed && bio.start == bio.origin;
      if (begins && worker.plug.empty() && worker.driver().burst_is_over(*this)) {
        bio.flags |= kBioSingle;
      }
    }
    Merged merged = Merged::no;
    if (!cut && !resumed) merged = merge(worker, context, bio);
    if (merged == Merged::yes) return;
    const bool skipped = merged == Merged::skipped;
    resumed = false;
    Request* rq = allocate(worker, context, bio, privileged, skipped);
    if (rq == nullptr) return;
    if (skipped) rq->flags |= kRqLookupSkipped;
    // A bio that has begun goes on piece by piece: it does not wait behind those that came later.
    privileged = true;
    attach(worker, context, *rq, bio, piece);
    if (!cut) return;
    // Alone, each piece has a plug of its own (docs/spec/plug-and-merge.md section 7).
    if ((bio.flags & kBioSingle) != 0) worker.flush_plug(false);
  }
}

/// Ends a piece, or a bio that never was in a request.
void RequestQueue::finish(Worker& worker, Bio& bio, int error) {
  Bio& root = bio.root();
  if (error != 0) root.fail(error);
  if (root.pending.fetch_sub(1, std::memory_order_acq_rel) == 1) worker.finished.push_back(root);
}

// --- Merging, before a tag is taken -----------------------------------------------------------

RequestQueue::Merged RequestQueue::merge(Worker& worker, QueueContext& context, Bio& bio) {
  constexpr BioFlags kNever = kBioNoMerge | kBioPreflush | kBioFua;
  if ((bio.flags & kNever) != 0 || bio.op == Op::flush || bio.op == Op::write_zeroes ||
      nomerges() == 2) {
    return Merged::no;
  }
  if (context.plug_newest != nullptr && merge_in_plug(worker, context, bio)) return Merged::yes;
  if (elevator_) {
    BioMergeLock how = bio_merge_lock_.load(std::memory_order_relaxed);
    if (context.leave_out != 0 && how == BioMergeLock::tried) {
      --context.leave_out;
      how = BioMergeLock::contended;
    } else if (!elevator_->has_candidates()) {
      return Merged::no;
    }
    context.counters.merge_attempts[static_cast<unsigned>(MergePoint::bio_merge)].add(1);
    return merge_in_elevator(worker, context, bio, how);
  }
  const std::uint64_t own = std::uint64_t{1} << worker.index();
  if ((software_pending_.load(std::memory_order_relaxed) & own) == 0) return Merged::no;
  return merge_in_software_queue(worker, context, bio) ? Merged::yes : Merged::no;
}

void RequestQueue::merged_bio(Worker& worker, QueueContext& context, Bio& bio, MergeResult kind,
                              MergePoint at) {
  WorkerCounters& counters = context.counters;
  counters.merge_hits[static_cast<unsigned>(at)].add(1);
  if (iostats()) counters.groups[static_cast<unsigned>(stat_group(bio.op))].merges.add(1);
  if (worker.trace != nullptr) {
    const TraceEvent event =
        kind == MergeResult::back ? TraceEvent::back_merged : TraceEvent::front_merged;
    worker.trace->bio_event(event, bio, 0, worker.now);
  }
}

/// One hit: the newest request of this queue and no other (docs/spec/plug-and-merge.md section 3).
bool RequestQueue::merge_in_plug(Worker& worker, QueueContext& context, Bio& bio) {
  Request& newest = *context.plug_newest;
  context.counters.merge_attempts[static_cast<unsigned>(MergePoint::plug)].add(1);
  if (elevator_ && merge_kind(newest, bio) != MergeResult::none &&
      !elevator_->allow_merge(newest, bio)) {
    return false;
  }
  const MergeResult kind = try_merge(limits_, newest, bio);
  if (kind == MergeResult::refused) context.plug_newest = nullptr;
  if (kind != MergeResult::back && kind != MergeResult::front) return false;
  merged_bio(worker, context, bio, kind, MergePoint::plug);
  return true;
}

/// Never waits for the elevator, unless told to: if its lock is contended, the lookup is left out
/// and made up for, by `insert` of the elevator or before the bio is parked
/// (docs/architecture.md, "Concurrency rules").
RequestQueue::Merged RequestQueue::merge_in_elevator(Worker& worker, QueueContext& context,
                                                     Bio& bio, BioMergeLock how) {
  if (how == BioMergeLock::waited_for) {
    lock_.lock();
  } else if (how == BioMergeLock::contended || !try_lock(context)) {
    context.counters.merge_skips.add(1);
    return Merged::skipped;
  }
  RequestList merged;
  const MergeResult kind = elevator_->bio_merge(bio, merged, worker.now);
  if (const auto at = elevator_->wake_at()) worker.bound_sleep(*at);
  const bool joined = kind == MergeResult::back || kind == MergeResult::front;
  // Under the lock: without it the request may be dispatched and its bios answered meanwhile.
  if (!merged.empty()) free_merged(worker, merged, MergePoint::request);
  if (joined) merged_bio(worker, context, bio, kind, MergePoint::bio_merge);
  lock_.unlock();
  return joined ? Merged::yes : Merged::no;
}

/// The newest entries of this worker's list, backwards; an adjacent one that fails a limit ends it.
bool RequestQueue::merge_in_software_queue(Worker& worker, QueueContext& context, Bio& bio) {
  context.counters.merge_attempts[static_cast<unsigned>(MergePoint::software_queue)].add(1);
  MergeResult kind = MergeResult::none;
  const LockGuard guard(context.software_lock);
  unsigned looked = 0;
  for (auto it = context.software_queue.rbegin();
       it != context.software_queue.rend() && looked < kSoftwareQueueSearch; ++it, ++looked) {
    kind = try_merge(limits_, *it, bio);
    if (kind != MergeResult::none) break;
  }
  if (kind != MergeResult::back && kind != MergeResult::front) return false;
  merged_bio(worker, context, bio, kind, MergePoint::software_queue);  // still under the lock
  return true;
}

// --- Allocation -------------------------------------------------------------------------------

/// A request for the next piece of `bio`, or null: the bio is parked (or failed, kBioNoWait; or
/// merged after all, if the lookup was `skipped`).
Request* RequestQueue::allocate(Worker& worker, QueueContext& context, Bio& bio, bool privileged,
                                bool skipped) {
  TagMap& tags = allocation_tags();
  DepthLimit limit;
  if (elevator_ && bio.op != Op::flush) limit = elevator_->limit(bio);
  // A woken one is counted in the class that it waited in.
  if ((bio.flags & kBioWoken) == 0) {
    bio.depth_class = static_cast<std::uint8_t>(limit.depth_class);
  }
  std::int32_t tag = -1;
  if (privileged || !tags.somebody_waits(limit.depth_class)) {
    tag = tags.try_get(worker.index(), limit.shallow);
  }
  if (tag < 0) [[unlikely]] {
    tag = allocate_slowly(worker, context, bio, limit, privileged, skipped);
    if (tag < 0) return nullptr;
  }
  if ((bio.flags & kBioWoken) != 0) {
    BioList woken;
    tags.served(bio, woken);
    worker.hand_out(woken);
  }
  Request& rq = tags.request(static_cast<std::uint32_t>(tag));
  rq.tag = elevator_ ? -1 : tag;
  rq.internal_tag = elevator_ ? tag : -1;
  rq.worker = static_cast<std::uint16_t>(worker.index());
  rq.flags = 0;
  rq.steps = 0;
  rq.error = 0;
  rq.queue = this;
  rq.elevator_data = nullptr;
  rq.allocated = worker.now;
  if (iostats()) {
    rq.flags = kRqIoStat;
    account_time(worker.now, false);
    context.counters.allocated[bio.op == Op::read ? 0 : 1].add(1);
  }
  return &rq;
}

/// No tag at once: flush the plug (it holds tags, maybe the missing ones), run the queue, try
/// again, park (docs/architecture.md, rules 6 to 8).
std::int32_t RequestQueue::allocate_slowly(Worker& worker, QueueContext& context, Bio& bio,
                                           DepthLimit limit, bool privileged, bool skipped) {
  worker.flush_plug(true);
  run(worker);
  TagMap& tags = allocation_tags();
  if (privileged || !tags.somebody_waits(limit.depth_class)) {
    const std::int32_t tag = tags.try_get(worker.index(), limit.shallow);
    if (tag >= 0) return tag;
  }
  // A bio that goes to sleep can as well wait for the lock: nobody merges it later.
  if (skipped && merge_in_elevator(worker, context, bio, BioMergeLock::waited_for) == Merged::yes) {
    return -1;
  }
  if ((bio.flags & kBioNoWait) != 0) {
    finish(worker, bio, EAGAIN);
    return -1;
  }
  BioList woken;
  const std::int32_t tag = tags.get_or_park(bio, worker.index(), limit, privileged, woken);
  // From here on a parked bio belongs to whoever wakes it.
  worker.hand_out(woken);
  return tag;
}

/// Fills `rq` with the first `piece` of `bio` and sends it on its way.
void RequestQueue::attach(Worker& worker, QueueContext& context, Request& rq, Bio& bio,
                          Sectors piece) {
  Bio* part = &bio;
  if (piece < bio.length) {
    if (worker.trace != nullptr) {
      worker.trace->bio_event(TraceEvent::split, bio, piece.value, worker.now);
    }
    part = &rq.split_piece;
    part->op = bio.op;
    part->flags = static_cast<BioFlags>(bio.flags | kBioNoMerge);
    part->priority = bio.priority;
    part->issuer = bio.issuer;
    part->group = bio.group;
    part->owner = bio.owner;
    part->start = bio.start;
    part->length = piece;
    part->queue = this;
    part->parent = &bio;
    bio.pending.fetch_add(1, std::memory_order_relaxed);
    bio.start += piece;
    bio.length -= piece;
  }
  part->next = nullptr;
  rq.first = part;
  rq.last = part;
  rq.op = part->op;
  rq.start = part->start;
  rq.length = part->length;
  rq.segment_count = segments(limits_, part->op, part->length);
  rq.priority = part->priority;
  rq.issuer = part->issuer;
  rq.group = part->group;
  constexpr BioFlags kKept = kBioFua | kBioPreflush | kBioSync | kBioNoMerge;
  rq.bio_flags = static_cast<BioFlags>(part->flags & kKept);
  if ((part->flags & kBioNoMerge) != 0) rq.flags |= kRqNoMerge;
  if ((part->flags & kBioAtHead) != 0) rq.flags |= kRqAtHead | kRqNoMerge;
  if (worker.trace != nullptr) worker.trace->request_event(TraceEvent::got_tag, rq, worker.now);
  if ((part->flags & (kBioFua | kBioPreflush)) != 0) [[unlikely]] {
    begin_flush_sequence(worker, context, rq);
  } else {
    add_to_plug(worker, context, rq);
  }
}

void RequestQueue::begin_flush_sequence(Worker& worker, QueueContext& context, Request& rq) {
  const bool has_data = rq.length.value != 0;
  rq.steps = FlushMachine::steps_for(rq.bio_flags, has_data, limits_.fua);
  if (rq.steps == kStepData) {  // FUA that the device does itself
    add_to_plug(worker, context, rq);
    return;
  }
  // The driver sees neither flag: the machine does their work.
  const BioFlags done = limits_.fua ? kBioPreflush : static_cast<BioFlags>(kBioPreflush | kBioFua);
  rq.bio_flags = static_cast<BioFlags>((rq.bio_flags & ~done) | kBioSync);
  RequestList data;
  {
    const LockGuard guard(lock_);
    FlushMachine::Outcome out;
    flush_.enter(rq, worker.now, out);
    if (out.flush != nullptr) {
      residual_.push_front(*out.flush);
      residual_mark_.store(true, std::memory_order_seq_cst);
    }
    data.swap(out.data);
  }
  if (data.empty()) {
    run(worker);
    return;
  }
  data.pop_front();
  add_to_plug(worker, context, rq);
}

void RequestQueue::add_to_plug(Worker& worker, QueueContext& context, Request& rq) {
  if (worker.plug.full(nomerges() != 2)) worker.flush_plug(false);
  if (worker.plug.empty() && worker.trace != nullptr) {
    worker.trace->plug_event(TraceEvent::plugged, worker.index(), 0, worker.now);
  }
  worker.plug.add(rq);
  context.plug_newest = &rq;
}

// --- Tunables that need a frozen queue --------------------------------------------------------

Limits RequestQueue::limits() const {
  const LockGuard guard(lock_);
  return limits_;
}

void RequestQueue::set_limits(const Limits& limits) {
  const LockGuard guard(lock_);
  limits_ = limits;
}

std::optional<Instant> RequestQueue::wake_at() const {
  const LockGuard guard(lock_);
  return next_wake_up();
}

std::optional<Instant> RequestQueue::next_wake_up() const {
  if (!elevator_) return std::nullopt;
  const std::optional<Instant> timer = elevator_->timer_at();
  // With something on the residual list it would not be asked.
  const std::optional<Instant> wake = residual_.empty() ? elevator_->wake_at() : std::nullopt;
  return timer && wake ? std::min(*timer, *wake) : timer ? timer : wake;
}

std::string_view RequestQueue::scheduler() const {
  const LockGuard guard(lock_);
  return elevator_ ? elevator_->name() : std::string_view("none");
}

std::uint32_t RequestQueue::max_requests() const {
  const LockGuard guard(lock_);
  return elevator_ ? kMaxSchedulerRequests : queue_depth_;
}

std::unique_ptr<TagMap> RequestQueue::prepare_requests(std::uint32_t n) const {
  const LockGuard guard(lock_);
  if (!elevator_ || n <= sched_tags_->bitmap().capacity()) return nullptr;
  return std::make_unique<TagMap>(n, n, workers());
}

void RequestQueue::set_nr_requests(std::uint32_t n, std::unique_ptr<TagMap> tags) {
  // The map that is replaced goes with `tags`, after the lock.
  const LockGuard guard(lock_);
  if (!elevator_) {
    hardware_tags_->set_depth(n);
    nr_requests_.store(n);
    async_depth_.store(n);
    return;
  }
  const std::uint64_t scaled =
      std::uint64_t{async_depth_.load()} * n / std::max(nr_requests_.load(), 1U);
  const auto async = static_cast<std::uint32_t>(std::max<std::uint64_t>(scaled, 1));
  if (tags != nullptr) {
    sched_tags_.swap(tags);
  } else {
    sched_tags_->set_depth(n);
  }
  nr_requests_.store(n);
  async_depth_.store(async);
  sched_tags_->set_min_shallow_depth(elevator_->depth_updated(n, async));
}

bool RequestQueue::set_async_depth(std::uint32_t n) {
  const LockGuard guard(lock_);
  if (!elevator_) return false;
  const std::uint32_t nr = nr_requests_.load();
  const std::uint32_t async = std::min(n, nr);
  async_depth_.store(async);
  sched_tags_->set_min_shallow_depth(elevator_->depth_updated(nr, async));
  return true;
}

RequestQueue::Attachment RequestQueue::prepare(std::unique_ptr<Elevator> elevator) const {
  if (elevator == nullptr) return {};
  const std::uint32_t n = 2 * std::min(queue_depth_, kDefaultRequests);
  elevator->attach({&limits_, &nomerges_, workers(), groups_, &group_weights_});
  return {std::move(elevator), std::make_unique<TagMap>(n, n, workers())};
}

RequestQueue::Attachment RequestQueue::attach(Attachment next) {
  const LockGuard guard(lock_);
  // No hidden state: the hardware map has its full depth after every change
  // (docs/architecture.md, "Decided differences").
  if (hardware_tags_->depth() != queue_depth_) hardware_tags_->set_depth(queue_depth_);
  elevator_.swap(next.elevator);
  sched_tags_.swap(next.tags);
  knows_groups_.store(elevator_ && elevator_->knows_groups(), std::memory_order_relaxed);
  if (!elevator_) {
    nr_requests_.store(queue_depth_);
    async_depth_.store(queue_depth_);
    return next;
  }
  const std::uint32_t n = sched_tags_->depth();
  const std::uint32_t async = elevator_->default_async_depth(n);
  nr_requests_.store(n);
  async_depth_.store(async);
  sched_tags_->set_min_shallow_depth(elevator_->depth_updated(n, async));
  return next;
}

}  // namespace elevd::sched
