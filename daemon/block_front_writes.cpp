// SPDX-License-Identifier: Apache-2.0
// BlockFront: writes that must exclude each other, and those that read, modify and write
// (docs/architecture.md "Concurrency rules", rule 14).
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
  std::memmove(request.received + (request.offset - range.from), request.received, request.length);
  if (request.offset != range.from) {
    read_edge(request, Stage::head, range.from);
  } else {
    read_edge(request, Stage::tail, range.to - block);
  }
}

/// The first block goes to the first of the scratch memory, the last behind it.
void BlockFront::read_edge(FrontRequest& request, Stage stage, std::uint64_t at) {
  const std::uint64_t block = request.disk->backing().geometry().logical_block;
  request.stage = stage;
  request.memory.store(request.scratch + (stage == Stage::tail ? block : 0),
                       std::memory_order_relaxed);
  request.bio.op = sched::Op::read;
  request.bio.flags = sched::kBioSync;
  request.bio.start = {at / sched::kSectorBytes};
  request.bio.length = {block / sched::kSectorBytes};
  request.disk->queue().submit(worker_.worker(), request.bio);
}

/// An edge has been read: read the other one, or put them beside the payload and write all of it.
void BlockFront::edge_read(FrontRequest& request) {
  const std::uint64_t block = request.disk->backing().geometry().logical_block;
  const ByteRange range = request.widened(block);
  const std::uint64_t end = request.offset + request.length;
  const bool one_block = range.to - range.from == block;
  const bool failed = request.bio.error.load(std::memory_order_relaxed) != 0;
  if (!failed && request.stage == Stage::head && end != range.to && !one_block) {
    read_edge(request, Stage::tail, range.to - block);
    return;
  }
  request.stage = Stage::plain;
  if (!failed) {
    std::byte* base = request.received;
    std::memcpy(base, request.scratch, request.offset - range.from);
    const std::byte* last =
        request.scratch + (one_block && request.offset != range.from ? 0 : block);
    std::memcpy(base + (end - range.from), last + (end - (range.to - block)), range.to - end);
    request.memory.store(base, std::memory_order_relaxed);
  }
  worker_.put_buffer(request.scratch);
  worker_.memory_freed();
  request.bio.op = sched::Op::write;
  if (failed) {
    answer(request, worker_);
    return;
  }
  if (request.durable) request.bio.flags |= sched::kBioFua;
  submit_widened(request);
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
      edge_read(request);
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
