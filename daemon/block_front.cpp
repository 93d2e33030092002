// SPDX-License-Identifier: Apache-2.0
#include "block_front.hpp"

#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>

#include "io_worker.hpp"
#include "sched/assertion.hpp"

namespace elevd::daemon {

BlockFront::BlockFront(IoWorker& worker)
    : worker_(worker), issuers_(ask_io_priority, worker.group_finder()) {}

bool BlockFront::is_io(std::uint32_t opcode) {
  return opcode == FUSE_READ || opcode == FUSE_WRITE || opcode == FUSE_FSYNC ||
         opcode == FUSE_FALLOCATE || opcode == FUSE_LSEEK;
}

void BlockFront::take(Share& share, FrontRequest& request, const Message& message) {
  begin(share, request, message);
  switch (message.header.opcode) {
    case FUSE_READ:
      return take_read(share, request, message.as<fuse_read_in>());
    case FUSE_WRITE:
      ELEVD_ASSERT(reinterpret_cast<std::uintptr_t>(message.payload) % kPage == 0);
      return take_write(share, request, message.as<fuse_write_in>(), message.payload);
    case FUSE_FSYNC:
      return take_fsync(request);
    case FUSE_FALLOCATE:
      return take_fallocate(share, request, message.as<fuse_fallocate_in>());
    default:
      return take_lseek(request, message.as<fuse_lseek_in>());
  }
}

void BlockFront::begin(Share& share, FrontRequest& request, const Message& message) {
  request.disk = share.disk;
  request.front = this;
  request.unique = message.header.unique;
  request.opcode = message.header.opcode;
  request.stage = Stage::plain;
  request.unaligned = false;
  request.durable = false;
  request.holds_range = false;
  request.received = nullptr;
  request.memory.store(nullptr, std::memory_order_relaxed);
  request.view.store(nullptr, std::memory_order_relaxed);
  request.bio.issuer = message.header.pid;
  request.bio.flags = sched::kBioSync;
  request.bio.priority = issuers_.priority(message.header.pid, worker_.worker().now);
  request.bio.group = share.disk->queue().knows_groups()
                          ? issuers_.group(message.header.pid, worker_.worker().now)
                          : sched::kRootGroup;
}

/// Submits the whole blocks that the byte range lies in.
void BlockFront::submit_widened(FrontRequest& request) {
  submit(request, request.widened(request.disk->backing().geometry().logical_block));
}

void BlockFront::submit(FrontRequest& request, ByteRange range) {
  request.bio.start = {range.from / sched::kSectorBytes};
  request.bio.length = {(range.to - range.from) / sched::kSectorBytes};
  request.disk->queue().submit(worker_.worker(), request.bio);
}

void BlockFront::take_read(Share& share, FrontRequest& request, const fuse_read_in& in) {
  const std::uint64_t size = share.disk->bytes();
  if (in.offset >= size || in.size == 0) {
    send(request, 0, nullptr, 0);
    return;
  }
  request.bio.op = sched::Op::read;
  request.offset = in.offset;
  request.length = std::min<std::uint64_t>(in.size, size - in.offset);
  lend_memory(share, request);
  submit_widened(request);
}

/// The payload stays where it was received.
void BlockFront::take_write(Share& share, FrontRequest& request, const fuse_write_in& in,
                            std::byte* payload) {
  const Geometry& geometry = share.disk->backing().geometry();
  if (in.size == 0) {
    const fuse_write_out out{};
    send(request, 0, &out, sizeof(out));
    return;
  }
  int error = 0;
  if (geometry.read_only) error = EROFS;
  if (in.offset >= geometry.bytes) error = ENOSPC;
  if (error != 0) {
    send(request, error, nullptr, 0);
    return;
  }
  request.bio.op = request.op = sched::Op::write;
  // The kernel sends no FSYNC after a direct write that was to be durable.
  request.durable = (in.flags & O_DSYNC) != 0;
  request.offset = in.offset;
  request.length = std::min<std::uint64_t>(in.size, geometry.bytes - in.offset);
  request.received = payload;
  holds_payload(share, request);
  request.memory.store(payload - in.offset % geometry.logical_block, std::memory_order_relaxed);
  request.unaligned =
      geometry.direct && ((request.offset | request.length) % geometry.logical_block) != 0;
  if (request.unaligned) [[unlikely]] {
    share.disk->unaligned_begins(worker_.worker().now);
  }
  start_write(share, request);
}

void BlockFront::take_fsync(FrontRequest& request) {
  request.bio.op = sched::Op::flush;
  request.bio.flags |= sched::kBioPreflush;
  request.length = 0;
  request.bio.start = {};
  request.bio.length = {};
  request.disk->queue().submit(worker_.worker(), request.bio);
}

void BlockFront::take_fallocate(Share& share, FrontRequest& request, const fuse_fallocate_in& in) {
  const Geometry& geometry = share.disk->backing().geometry();
  const bool punch = in.mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
  const bool zero = (in.mode & ~static_cast<unsigned>(FALLOC_FL_KEEP_SIZE)) == FALLOC_FL_ZERO_RANGE;
  const bool inside = in.offset <= geometry.bytes && in.length <= geometry.bytes - in.offset;
  int error = 0;
  if (geometry.read_only) {
    error = EROFS;
  } else if (punch || zero) {
    error = zero && !inside ? ENOSPC : 0;
  } else if ((in.mode & ~static_cast<unsigned>(FALLOC_FL_KEEP_SIZE)) == 0) {
    error = inside ? 0 : ENOSPC;
  } else {
    error = EOPNOTSUPP;
  }
  if (error != 0 || (!punch && !zero) || in.offset >= geometry.bytes || in.length == 0) {
    send(request, error, nullptr, 0);
    return;
  }
  request.bio.op = request.op = punch ? sched::Op::discard : sched::Op::write_zeroes;
  request.offset = in.offset;
  request.length = std::min(in.length, geometry.bytes - in.offset);
  // A file system zeroes parts of blocks itself.
  request.unaligned =
      geometry.is_block_device && ((request.offset | request.length) % geometry.logical_block) != 0;
  if (request.unaligned) share.disk->unaligned_begins(worker_.worker().now);
  start_write(share, request);
}

void BlockFront::take_lseek(FrontRequest& request, const fuse_lseek_in& in) {
  const off_t at = request.disk->backing().seek(in.offset, static_cast<int>(in.whence));
  if (at < 0) {
    send(request, static_cast<int>(-at), nullptr, 0);
    return;
  }
  const fuse_lseek_out out{static_cast<std::uint64_t>(at)};
  send(request, 0, &out, sizeof(out));
}

void BlockFront::collect_requests() {
  FrontRequest* request = home_.take_all();
  while (request != nullptr) {
    FrontRequest* next = request->next_free;
    if (goes_on(*request)) {
      ready_.push_back(request->bio);
    } else {
      came_home(*request);
    }
    request = next;
  }
}

void BlockFront::stop_admitting(Disk& disk) {
  if (Share* share = share_of(disk); share != nullptr) share->admitting = false;
}

}  // namespace elevd::daemon
