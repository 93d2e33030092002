// SPDX-License-Identifier: Apache-2.0
// BlockFront: writes that must exclude each other, and those that read, modify and write
// (docs/architecture.md "Concurrency rules", rule 14).
#include <algorithm>
#include <cstring>

#include "block_front.hpp"
#include "io_worker.hpp"
#include "sched/assertion.hpp"

namespace elevd::daemon {

/// In range mode a write takes its range before it enters the gate, so before any tag. An unaligned
/// one waits until no write without a range is left.
void BlockFront::start_write(Share& share, FrontRequest& request) {
  if (request.unaligned && !share.ranges_ready) [[unlikely]] {
    share.unaligned.push_back(request.bio);
    share.disk->want_range_mode();
    return;
  }
  if (share.take_ranges) [[unlikely]] {
    const ByteRange range = request.widened(share.disk->backing().geometry().logical_block);
    request.range.request = &request;
    request.range.from = range.from;
    request.range.to = range.to;
    request.holds_range = true;
    // Set before anybody can grant it: it comes back through go_on() or from another worker.
    request.stage = Stage::granted;
    if (!share.disk->ranges().acquire(request.range)) return;
  }
  proceed(request);
}

void BlockFront::proceed(FrontRequest& request) {
  if (request.unaligned) {
    begin_unaligned(request);
    return;
  }
  request.stage = Stage::plain;
  request.bio.flags = sched::kBioSync;
  if (request.durable) request.bio.flags |= sched::kBioFua;
  const Backing& backing = request.disk->backing();
  if (((request.offset | request.length) % backing.geometry().logical_block) != 0 &&
      backing.kind() == BackingKind::uring) [[unlikely]] {
    // The backing gets the bytes and not the blocks: where blocks meet, bytes need not.
    request.bio.flags |= sched::kBioNoMerge;
  }
  submit_widened(request);
}

/// Moves the payload to where it lies in its blocks, and has the edges read that it does not fill.
void BlockFront::begin_unaligned(FrontRequest& request) {
  const std::uint64_t block = request.disk->backing().geometry().logical_block;
  const ByteRange range = request.widened(block);
  request.scratch = worker_.take_buffer();
  if (request.scratch == nullptr) {
    request.stage = Stage::granted;  // once more when memory has come back
    ready_.push_back(request.bio);
    return;
  }
  if (request.opcode != FUSE_WRITE) {
    begin_unaligned_punch(request);
    return;
  }
  std::memmove(request.received + (request.offset - range.from), request.received, request.length);
  submit_edge(request, request.offset != range.from ? Stage::head : Stage::tail, sched::Op::read);
}

/// A block device takes whole blocks only: those inside are zeroed first, since it may refuse that,
/// then the edges are read and written.
void BlockFront::begin_unaligned_punch(FrontRequest& request) {
  const std::uint64_t block = request.disk->backing().geometry().logical_block;
  const ByteRange middle = request.narrowed(block);
  request.stage = Stage::middle;
  request.bio.flags = sched::kBioSync;
  request.bio.error.store(0, std::memory_order_relaxed);
  if (middle.length() == 0) {
    stage_done(request);
    return;
  }
  request.bio.op = request.op;
  submit(request, middle);
}

/// The first block lies at the beginning of the scratch memory, the last one behind it.
void BlockFront::submit_edge(FrontRequest& request, Stage stage, sched::Op op) {
  const std::uint64_t block = request.disk->backing().geometry().logical_block;
  const ByteRange range = request.widened(block);
  const bool last = stage == Stage::tail || stage == Stage::tail_write;
  request.stage = stage;
  request.memory.store(request.scratch + (last ? block : 0), std::memory_order_relaxed);
  request.bio.op = op;
  request.bio.flags = sched::kBioSync;
  const std::uint64_t at = last ? range.to - block : range.from;
  submit(request, {at, at + block});
}

/// A step of an unaligned request is done: the next one, or its answer.
void BlockFront::stage_done(FrontRequest& request) {
  const bool failed = request.bio.error.load(std::memory_order_relaxed) != 0;
  const bool write = request.opcode == FUSE_WRITE;
  if (!failed && (write ? next_of_write(request) : next_of_punch(request))) return;
  request.stage = Stage::plain;
  worker_.put_buffer(request.scratch);
  worker_.memory_freed();
  request.bio.op = request.op;
  if (failed || !write) {
    answer(request, worker_);
    return;
  }
  if (request.durable) request.bio.flags |= sched::kBioFua;
  submit_widened(request);
}

/// An edge of a WRITE has been read. False: it was the last, and lies beside the payload now.
bool BlockFront::next_of_write(FrontRequest& request) {
  const std::uint64_t block = request.disk->backing().geometry().logical_block;
  const ByteRange range = request.widened(block);
  const std::uint64_t end = request.offset + request.length;
  const bool one_block = range.length() == block;
  if (request.stage == Stage::head && end != range.to && !one_block) {
    submit_edge(request, Stage::tail, sched::Op::read);
    return true;
  }
  std::byte* base = request.received;
  std::memcpy(base, request.scratch, request.offset - range.from);
  const std::byte* last = request.scratch + (one_block && request.offset != range.from ? 0 : block);
  std::memcpy(base + (end - range.from), last + (end - (range.to - block)), range.to - end);
  request.memory.store(base, std::memory_order_relaxed);
  return false;
}

/// False: the last step of the FALLOCATE was done.
bool BlockFront::next_of_punch(FrontRequest& request) {
  const std::uint64_t block = request.disk->backing().geometry().logical_block;
  const ByteRange range = request.widened(block);
  const std::uint64_t end = request.offset + request.length;
  const bool has_head = request.offset != range.from;
  const bool has_tail = end != range.to && !(has_head && range.length() == block);
  switch (request.stage) {
    case Stage::middle:
      submit_edge(request, has_head ? Stage::head : Stage::tail, sched::Op::read);
      return true;
    case Stage::head: {
      const std::uint64_t begin = request.offset - range.from;
      std::memset(request.scratch + begin, 0, std::min(block, end - range.from) - begin);
      submit_edge(request, Stage::head_write, sched::Op::write);
      return true;
    }
    case Stage::head_write:
      if (has_tail) submit_edge(request, Stage::tail, sched::Op::read);
      return has_tail;
    case Stage::tail:
      std::memset(request.scratch + block, 0, end - (range.to - block));
      submit_edge(request, Stage::tail_write, sched::Op::write);
      return true;
    default:
      return false;
  }
}

/// Goes on with requests that came back to their owner.
void BlockFront::go_on() {
  sched::BioList now;
  now.swap(ready_);
  while (!now.empty()) {
    FrontRequest& request = front_of(now.front());
    now.pop_front();
    if (request.stage == Stage::granted) {
      proceed(request);
    } else {
      stage_done(request);
    }
  }
}

void BlockFront::to_owner(FrontRequest& request, IoWorker& worker) {
  if (&worker == &worker_) {
    ready_.push_back(request.bio);
    return;
  }
  // Not memory that the owner may or may not wait for: it has to go on with this one.
  [[maybe_unused]] const bool waits = home_.push(request);
  worker.wake_peer(worker_.worker().index());
}

void BlockFront::release_range(FrontRequest& request, IoWorker& worker) {
  request.disk->ranges().release(request.range, [&worker](RangeHold& granted) {
    FrontRequest& next = *granted.request;
    static_cast<BlockFront*>(next.front)->to_owner(next, worker);
  });
  request.holds_range = false;
}

void BlockFront::set_range_mode(Disk& disk, bool take, bool ready) {
  Share* share = share_of(disk);
  if (share == nullptr) return;
  share->take_ranges = take;
  share->ranges_ready = ready;
  if (!ready) {
    if (!take && !share->unaligned.empty()) disk.want_range_mode();
    return;
  }
  sched::BioList waiting;
  waiting.swap(share->unaligned);
  while (!waiting.empty()) {
    FrontRequest& request = front_of(waiting.front());
    waiting.pop_front();
    start_write(*share, request);
  }
}

}  // namespace elevd::daemon
