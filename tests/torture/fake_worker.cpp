// SPDX-License-Identifier: Apache-2.0
#include "fake_worker.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include "device.hpp"

namespace elevd::torture {
namespace {

constexpr std::uint64_t waits_value(std::uint64_t sequence, unsigned disk, unsigned depth_class) {
  return sequence << 8U | disk << 3U | depth_class;
}

bool moves_data(sched::Op op) { return op == sched::Op::read || op == sched::Op::write; }

std::chrono::steady_clock::time_point time_point(sched::Instant at) {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::nanoseconds(at.ns)));
}

}  // namespace

Slot& slot_of(const sched::Bio& root) {
  return *sched::bi::get_parent_from_member(const_cast<sched::Bio*>(&root), &Slot::bio);
}

FakeWorker::FakeWorker(unsigned index, Team& team)
    : WorkerLoop(index, team.peers, *this),
      WorkerPort(worker().mailbox),
      team_(team),
      random_(team.options.seed, index + 1),
      sequential_(team.options.disks) {
  worker().trace = this;
  const unsigned count = std::clamp(4 * team.options.depth / team.options.workers + 8, 16U, 200U);
  for (unsigned i = 0; i < count; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->home = this;
    slots_.back()->next = free_;
    free_ = slots_.back().get();
  }
}

FakeWorker::~FakeWorker() = default;

sched::Instant FakeWorker::now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(since).count()};
}

// --- The ring: events and sleep ---------------------------------------------------------------

void FakeWorker::wake_up() {
  {
    const std::lock_guard guard(mutex_);
    event_pending_ = true;
  }
  event_.notify_one();
}

void FakeWorker::completed(sched::Request& rq, int error, bool charged) {
  {
    const std::lock_guard guard(mutex_);
    completions_.push_back({&rq, error, charged});
    event_pending_ = true;
  }
  event_.notify_one();
}

void FakeWorker::submit(bool sleep, std::optional<sched::Instant> until) {
  std::uint64_t& to_wake = worker().to_wake;
  while (to_wake != 0) {
    const auto peer = static_cast<unsigned>(std::countr_zero(to_wake));
    to_wake &= to_wake - 1;
    check(peer != worker().index(), "a worker is to wake itself");
    team_.workers[peer]->wake_up();
  }
  if (!sleep) return;
  check(!worker().has_work(), "a worker goes to sleep with work in its lists");
  std::unique_lock lock(mutex_);
  sleep_.store(++sleeps_, kTestOrder);
  const auto event = [this] { return event_pending_; };
  if (until) {
    event_.wait_until(lock, time_point(*until), event);
  } else {
    event_.wait(lock, event);
  }
  sleep_.store(0, kTestOrder);
}

void FakeWorker::reap() {
  phase_.store(phase_.load(kTestOrder) | 1U, kTestOrder);
  bool reaped = false;
  const auto finish = [&](const Completion& done) {
    if (done.charged) {
      --in_ring_;
      reaped = true;
    }
    Disk& disk = *static_cast<Disk*>(done.rq->queue->driver_data);
    check(disk.tags_at_device[static_cast<std::uint32_t>(done.rq->tag)].exchange(false, kTestOrder),
          "a completion for a tag that was not at the device");
    done.rq->queue->complete(worker(), *done.rq, done.error);
  };
  {
    const std::lock_guard guard(mutex_);
    event_pending_ = false;
    reaped_.swap(completions_);
  }
  for (const Completion& done : reaped_) finish(done);
  reaped_.clear();
  for (std::size_t i = 0; i < delayed_.size();) {
    if (delayed_[i].turns-- > 0) {
      ++i;
      continue;
    }
    const Completion done = delayed_[i].completion;
    delayed_[i] = delayed_.back();
    delayed_.pop_back();
    finish(done);
  }
  reap_refusals(reaped);
}

/// Runs the queues whose refusal is over.
void FakeWorker::reap_refusals(bool reaped) {
  for (std::size_t i = 0; i < refusals_.size();) {
    Refusal& refusal = refusals_[i];
    const bool over = refusal.turns == 0 ? reaped : --refusal.turns == 0;
    if (!over) {
      ++i;
      continue;
    }
    sched::RequestQueue* queue = refusal.queue;
    refusal = refusals_.back();
    refusals_.pop_back();
    queue->run_later(worker());
  }
}

void FakeWorker::refuse(sched::RequestQueue& queue, unsigned turns) {
  for (const Refusal& refusal : refusals_) {
    if (refusal.queue == &queue && refusal.turns == turns) return;
  }
  refusals_.push_back({&queue, turns});
}

unsigned FakeWorker::budget(sched::RequestQueue& queue) {
  const Mood& now_mood = mood();
  if (in_ring_ >= now_mood.in_ring) {
    refuse(queue, 0);
    return 0;
  }
  if (random_.percent(now_mood.refusals)) {
    refuse(queue, random_.between(1, 4));
    return 0;
  }
  return now_mood.in_ring - in_ring_;
}

bool FakeWorker::issue(sched::Request& rq) {
  const Mood& now_mood = mood();
  Disk& disk = *static_cast<Disk*>(rq.queue->driver_data);
  check(!disk.frozen.load(kTestOrder), "a request was issued on a frozen queue");
  if (random_.percent(now_mood.refusals)) {
    refuse(*rq.queue, random_.between(1, 4));
    return false;
  }
  check(rq.tag >= 0 && static_cast<std::uint32_t>(rq.tag) < team_.options.depth,
        "a request without a hardware tag was issued");
  check(!disk.tags_at_device[static_cast<std::uint32_t>(rq.tag)].exchange(true, kTestOrder),
        "two requests with one hardware tag are at the device");
  const int error = random_.percent(now_mood.errors) ? EIO : 0;
  note_served(rq, error);
  if (random_.percent(now_mood.inline_done)) {
    disk.tags_at_device[static_cast<std::uint32_t>(rq.tag)].store(false, kTestOrder);
    rq.queue->complete(worker(), rq, error);
    return true;
  }
  if (random_.percent(now_mood.delayed_done)) {
    ++in_ring_;
    delayed_.push_back({{&rq, error, true}, random_.below(6)});
    return true;
  }
  FakeWorker* reaper = this;
  if (random_.percent(now_mood.elsewhere)) {
    reaper = team_.workers[random_.below(team_.options.workers)].get();
  }
  const bool charged = reaper == this;
  if (charged) ++in_ring_;
  team_.device->submit({.rq = &rq, .error = error, .reaper = reaper, .charged = charged});
  return true;
}

/// What the driver sees of a request: its bios follow each other, and the limits hold.
void FakeWorker::note_served(const sched::Request& rq, int error) {
  if (rq.op == sched::Op::flush) return;
  const Disk& disk = *static_cast<const Disk*>(rq.queue->driver_data);
  sched::Sector at = rq.start;
  for (const sched::Bio* bio = rq.first; bio != nullptr; bio = bio->next) {
    check(bio->start == at && bio->op == rq.op, "bios of a request that do not fit together");
    at += bio->length;
    Slot& slot = slot_of(bio->root());
    slot.served.fetch_add(bio->length.value, std::memory_order_relaxed);
    if (error != 0) slot.failed.store(true, std::memory_order_relaxed);
  }
  check(at == rq.end(), "the bios of a request are not its length");
  check(rq.length <= sched::max_request_sectors(disk.limits, rq.op, rq.start),
        "a request is larger than its limit");
  check(rq.segment_count <= disk.limits.max_segments, "a request has too many segments");
}

// --- The front: new bios ----------------------------------------------------------------------

void FakeWorker::begin_round() {
  round_ = team_.round.load(std::memory_order_acquire);
  team_.arrived.fetch_add(1, std::memory_order_relaxed);
  if (!mood().together) return;
  for (unsigned spins = 0; spins < 2000; ++spins) {
    if (team_.arrived.load(std::memory_order_relaxed) >= team_.options.workers) break;
    sched::cpu_relax();
  }
  for (unsigned spins = random_.below(100); spins > 0; --spins) sched::cpu_relax();
}

void FakeWorker::admit() {
  follow_classes();
  phase_.store((phase_.load(kTestOrder) | 1U) + 1, kTestOrder);
  if (round_ != team_.round.load(std::memory_order_acquire)) begin_round();
  const unsigned quota = quota_.load(std::memory_order_acquire);
  if (quota == 0) return;
  for (unsigned n = std::min(quota, random_.between(1, mood().burst)); n > 0; --n) {
    Slot* slot = take_slot();
    if (slot == nullptr) return;
    quota_.store(quota_.load(std::memory_order_relaxed) - 1, std::memory_order_seq_cst);
    fill(*slot);
    submit_slot(*slot);
  }
}

Slot* FakeWorker::take_slot() {
  if (free_ == nullptr) free_ = home_.exchange(nullptr, std::memory_order_acquire);
  Slot* slot = free_;
  if (slot != nullptr) free_ = slot->next;
  return slot;
}

void FakeWorker::come_home(Slot& slot) {
  Slot* head = home_.load(std::memory_order_relaxed);
  do {
    slot.next = head;
  } while (!home_.compare_exchange_weak(head, &slot, std::memory_order_seq_cst,
                                        std::memory_order_relaxed));
  if (quota_.load(std::memory_order_seq_cst) != 0) wake_up();
}

bool FakeWorker::may_sleep() {
  const auto ends_by_itself = [](const Refusal& refusal) { return refusal.turns != 0; };
  if (!delayed_.empty() || std::any_of(refusals_.begin(), refusals_.end(), ends_by_itself)) {
    return false;
  }
  if (quota_.load(std::memory_order_seq_cst) == 0) return true;
  return free_ == nullptr && home_.load(std::memory_order_seq_cst) == nullptr;
}

void FakeWorker::fill(Slot& slot) {
  slot.disk = team_.disks[random_.below(mood().disks)].get();
  slot.expected = 0;
  slot.may_refuse = false;
  slot.flushes = false;
  slot.served.store(0, std::memory_order_relaxed);
  slot.failed.store(false, std::memory_order_relaxed);
  slot.bio.flags = 0;
  slot.bio.priority = {};
  slot.bio.issuer = worker().index() + 1;
  Run& run = sequential_[slot.disk->index];
  if (choose_place(slot)) {
    slot.bio.op = run.op;
    slot.bio.flags = run.flags;
  } else {
    choose_kind(slot);
    const bool plain = moves_data(slot.bio.op) && !slot.flushes && slot.expected == 0;
    run.op = plain ? slot.bio.op : sched::Op::read;
    run.flags = plain ? slot.bio.flags & sched::kBioSync : sched::kBioSync;
  }
  slot.op = slot.bio.op;
  slot.length = slot.bio.length;
}

/// True: right behind the last one, with whom it may be merged.
bool FakeWorker::choose_place(Slot& slot) {
  std::uint64_t& next = sequential_[slot.disk->index].next_block;
  const bool goes_on = random_.percent(mood().sequential);
  if (!goes_on) next = random_.below(kDiskBlocks);
  const unsigned blocks = random_.percent(70) ? random_.between(1, 2) : random_.between(1, 16);
  slot.bio.start = {next * kBlockSectors};
  slot.bio.length = {blocks * kBlockSectors};
  next = (next + blocks) % kDiskBlocks;
  return goes_on;
}

void FakeWorker::choose_kind(Slot& slot) {
  sched::Bio& bio = slot.bio;
  bio.op = sched::Op::read;
  bio.flags = sched::kBioSync;
  if (mood().one_class) return;
  if (random_.percent(60)) {
    bio.op = sched::Op::write;
    if (random_.percent(50)) bio.flags = 0;
  }
  if (random_.percent(mood().flushes)) {
    slot.flushes = true;
    bio.op = random_.percent(30) ? sched::Op::flush : sched::Op::write;
    bio.flags = sched::kBioSync;
    if (bio.op == sched::Op::flush || random_.percent(50)) bio.flags |= sched::kBioPreflush;
    if (bio.op == sched::Op::write && random_.percent(60)) bio.flags |= sched::kBioFua;
    if (bio.op == sched::Op::flush) bio.length = {0};
    return;
  }
  if (!random_.percent(mood().odd)) return;
  switch (random_.below(6)) {
    case 0:
    case 1:
      bio.op = random_.percent(50) ? sched::Op::discard : sched::Op::write_zeroes;
      slot.may_refuse = true;
      break;
    case 2:
      bio.length += {1};
      slot.expected = EIO;
      break;
    case 3:
      if (!team_.use_no_wait) break;
      bio.flags |= sched::kBioNoWait;
      slot.may_refuse = true;
      break;
    case 4:
      bio.flags |= sched::kBioAtHead;
      break;
    default:
      bio.priority = sched::IoPriority::real_time(random_.below(8));
      break;
  }
}

void FakeWorker::submit_slot(Slot& slot) {
  Disk& disk = *slot.disk;
  check(!slot.submitted.exchange(true, std::memory_order_relaxed), "a slot was used twice");
  disk.submitted.fetch_add(1, std::memory_order_relaxed);
  const bool gated = sched::QueueTest::gate_holds(*disk.queue, worker());
  // A bio that waits at the gate, or that ends without a tag, is left out of the order check.
  const bool ordered = !gated && moves_data(slot.op) && slot.expected == 0 && !slot.may_refuse;
  slot.is_new = ordered;
  slot.untagged = slot.length;
  slot.begun = team_.park_sequence.load(kTestOrder);
  disk.queue->submit(worker(), slot.bio);
  // It may be answered by now, and at home; but nobody else uses what is read here.
  slot.is_new = false;
  if (ordered && slot.untagged.value != 0) note_waiting(slot);
}

// --- The order of waiting bios ----------------------------------------------------------------

/// `slot` was parked: it waits, parked or woken, until this worker resumes it.
void FakeWorker::note_waiting(Slot& slot) {
  team_.parks.fetch_add(1, std::memory_order_relaxed);
  slot.disk->waiters.fetch_add(1, kTestOrder);
  ++waiting_;
  note_class(slot);
}

/// From now on `slot` surely waits in the class that it asked in last.
void FakeWorker::note_class(Slot& slot) {
  const std::uint64_t sequence = team_.park_sequence.fetch_add(1, kTestOrder);
  slot.waits.store(waits_value(sequence, slot.disk->index, slot.bio.depth_class), kTestOrder);
}

/// Who was woken and found no tag may have parked in another class: under bfq it depends on what
/// its issuer holds, which others change. A bio that came before that had no duty to it.
void FakeWorker::follow_classes() {
  if (waiting_ == 0) return;
  for (const auto& slot : slots_) {
    const std::uint64_t waits = slot->waits.load(kTestOrder);
    if (waits == 0 || (waits & 7U) == slot->bio.depth_class) continue;
    team_.class_changes.fetch_add(1, std::memory_order_relaxed);
    note_class(*slot);
  }
}

/// A new bio has a tag: then nobody of its class or a less limited one waited before it came.
/// Sure to be waiting is who waits now, while its worker is where it resumes nothing.
void FakeWorker::check_not_overtaking(const Slot& slot) {
  if (slot.disk->waiters.load(kTestOrder) == 0) return;
  const unsigned depth_class = slot.bio.depth_class;
  for (const auto& other : team_.workers) {
    const std::uint64_t phase = other->phase_.load(kTestOrder);
    if ((phase & 1U) != 0) continue;
    for (const auto& waiting : other->slots_) {
      const std::uint64_t waits = waiting->waits.load(kTestOrder);
      if (waits == 0 || ((waits >> 3U) & 31U) != slot.disk->index) continue;
      if ((waits & 7U) > depth_class || waits >> 8U >= slot.begun) continue;
      if (other->phase_.load(kTestOrder) != phase) break;
      fail(
          "a new bio of class %u on disk %u got a tag of worker %u while one of class %u of worker "
          "%u waited",
          depth_class, slot.disk->index, worker().index(), static_cast<unsigned>(waits & 7U),
          other->worker().index());
    }
  }
}

void FakeWorker::placed(Slot& slot, sched::Sectors sectors) {
  check(sectors <= slot.untagged, "more sectors of a bio were placed than it has");
  slot.untagged -= sectors;
  if (slot.waits.load(kTestOrder) == 0) return;
  slot.waits.store(0, kTestOrder);
  --waiting_;
  slot.disk->waiters.fetch_sub(1, kTestOrder);
}

void FakeWorker::bio_event(sched::TraceEvent event, const sched::Bio& bio, std::uint64_t,
                           sched::Instant) {
  if (event != sched::TraceEvent::back_merged && event != sched::TraceEvent::front_merged) return;
  team_.merged_bios.fetch_add(1, std::memory_order_relaxed);
  Slot& slot = slot_of(bio.root());
  slot.is_new = false;
  placed(slot, slot.untagged);
}

void FakeWorker::request_event(sched::TraceEvent event, const sched::Request& rq, sched::Instant) {
  if (event == sched::TraceEvent::request_merged) {
    team_.merged_requests.fetch_add(1, std::memory_order_relaxed);
  }
  if (event != sched::TraceEvent::got_tag) return;
  team_.requests.fetch_add(1, std::memory_order_relaxed);
  Slot& slot = slot_of(rq.first->root());
  check(slot.home == this, "another worker than its owner placed a bio");
  if (slot.is_new) check_not_overtaking(slot);
  slot.is_new = false;
  placed(slot, rq.length);
}

void FakeWorker::plug_event(sched::TraceEvent, unsigned, std::uint64_t, sched::Instant) {}

// --- Answers ----------------------------------------------------------------------------------

void FakeWorker::answer(sched::Bio& bio) {
  Slot& slot = slot_of(bio);
  Disk& disk = *slot.disk;
  check(slot.submitted.exchange(false, std::memory_order_relaxed), "a bio was answered twice");
  check(bio.pending.load(std::memory_order_relaxed) == 0, "a bio with pieces left was answered");
  check(slot.waits.load(kTestOrder) == 0, "a bio that waits was answered");
  const int error = bio.error.load(std::memory_order_relaxed);
  const bool failed = slot.failed.load(std::memory_order_relaxed);
  const std::uint64_t served = slot.served.load(std::memory_order_relaxed);
  bool right = false;
  if (slot.expected != 0) {
    right = error == slot.expected && served == 0;
  } else if (error == 0) {
    right = !failed && served == slot.length.value;
  } else if (error == EIO) {
    right = failed || slot.flushes;
  } else {
    right = slot.may_refuse && (error == EAGAIN || error == EOPNOTSUPP);
  }
  if (!right) {
    fail("op %u of %llu sectors ended with errno %d: %llu sectors served, failed %d",
         static_cast<unsigned>(slot.op), static_cast<unsigned long long>(slot.length.value), error,
         static_cast<unsigned long long>(served), failed ? 1 : 0);
  }
  check(slot.may_refuse || !disk.frozen.load(kTestOrder), "a bio of a frozen queue was answered");
  disk.answered.fetch_add(1, std::memory_order_relaxed);
  if (slot.home == this) {
    slot.next = free_;
    free_ = &slot;
  } else {
    slot.home->come_home(slot);
  }
  team_.answered_one();
}

void FakeWorker::left_closed_gate(sched::RequestQueue& queue) {
  static_cast<Disk*>(queue.driver_data)->freezer->signal();
}

void FakeWorker::dump() {
  const std::lock_guard guard(mutex_);
  std::printf("worker %u: quota %u, sleep %llu, event pending %d, completions %zu, mailbox %s\n",
              worker().index(), quota_.load(), static_cast<unsigned long long>(sleep_.load()),
              event_pending_ ? 1 : 0, completions_.size(),
              worker().mailbox.empty() ? "empty" : "NOT EMPTY");
  for (const auto& slot : slots_) {
    if (!slot->submitted.load()) continue;
    const std::uint64_t waits = slot->waits.load();
    std::printf("  bio on disk %u: op %u, flags %x, served %llu of %llu, untagged %llu%s\n",
                slot->disk->index, static_cast<unsigned>(slot->op), slot->bio.flags,
                static_cast<unsigned long long>(slot->served.load()),
                static_cast<unsigned long long>(slot->length.value),
                static_cast<unsigned long long>(slot->untagged.value),
                waits != 0 ? ", waits for a tag" : "");
  }
}

}  // namespace elevd::torture
