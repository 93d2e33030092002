// SPDX-License-Identifier: Apache-2.0
#include "dev_front.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "io_worker.hpp"
#include "log.hpp"
#include "sched/assertion.hpp"

namespace elevd::daemon {
namespace {

/// Address space for this many payloads in the hands of one worker.
constexpr std::size_t kBuffers = 1536;
/// Requests of callers in the hands of one worker, over all its disks.
constexpr std::size_t kRequests = 8192;
/// Buffers that READs can count on, whatever WRITEs hold.
constexpr std::size_t kReadReserve = 64;

constexpr std::size_t kMessageHead = kPage - kWriteHeader;  // where a message starts in a buffer

template <class T>
const T& body_of(const std::byte* message) {
  return *reinterpret_cast<const T*>(message + sizeof(fuse_in_header));
}

const fuse_in_header& header_of(const std::byte* message) {
  return *reinterpret_cast<const fuse_in_header*>(message);
}

}  // namespace

DevFront::DevFront(IoWorker& worker)
    : worker_(worker), buffers_(kBuffers, worker.worker().index()), requests_(kRequests) {}

void DevFront::add(Disk& disk) {
  Share& share = shares_.emplace_back();
  share.front = this;
  share.disk = &disk;
  share.fd = disk.connection().fd();
}

void DevFront::remove(Disk& disk) {
  collect_home();
  for (auto it = shares_.begin(); it != shares_.end(); ++it) {
    if (it->disk != &disk) continue;
    it->removed = true;
    it->readable = false;
    if (it->armed) {
      worker_.cancel_poll(&*it);
    } else {
      shares_.erase(it);
    }
    return;
  }
}

void DevFront::on_event(void* object, int) {
  auto& share = *static_cast<Share*>(object);
  share.armed = false;
  share.readable = true;
  if (!share.removed) return;
  shares_.remove_if([&share](const Share& each) { return &each == &share; });
}

void DevFront::arm(Share& share) {
  share.armed = true;
  // Exclusive: of several workers that wait, a request wakes one.
  worker_.poll(share.fd, EPOLLIN | EPOLLEXCLUSIVE, &share);
}

bool DevFront::has_memory(const Share& share) const {
  return !requests_.empty() && share.held < share.disk->write_memory_per_worker() &&
         (receive_ != nullptr || buffers_.available() > kReadReserve);
}

void DevFront::admit() {
  collect_home();
  if (!ready_.empty()) [[unlikely]] {
    go_on();
  }
  for (Share& share : shares_) {
    if (share.readable && share.admitting) read_requests(share);
  }
}

bool DevFront::may_sleep() {
  collect_home();
  if (worker_.is_starved() && !buffers_.wait()) return false;
  if (!ready_.empty() && (buffers_.available() != 0 || !buffers_.wait())) return false;
  for (Share& share : shares_) {
    if (!share.readable || !share.admitting) continue;
    if (has_memory(share)) return false;
    // Some of it may come home from another worker, which must then wake this one.
    if (!requests_.home().wait() || !buffers_.wait()) return false;
  }
  return true;
}

void DevFront::read_requests(Share& share) {
  for (unsigned n = 0; n < sched::kEntriesPerTurn; ++n) {
    if (!has_memory(share)) return;
    if (receive_ == nullptr) receive_ = buffers_.take();
    std::byte* message = receive_ + kMessageHead;
    const ssize_t bytes = read(share.fd, message, kWriteHeader + kMaxPayload + kPage);
    if (bytes >= static_cast<ssize_t>(sizeof(fuse_in_header))) [[likely]] {
      take_request(share, message, static_cast<std::size_t>(bytes));
      continue;
    }
    if (bytes < 0 && (errno == EINTR || errno == ENOENT)) continue;
    share.readable = false;
    if (bytes < 0 && errno == EAGAIN) {
      arm(share);
      return;
    }
    // ENODEV: unmounted. Anything else ends the connection just the same.
    worker_.connection_gone(*share.disk);
    return;
  }
}

void DevFront::take_request(Share& share, std::byte* message, std::size_t bytes) {
  switch (header_of(message).opcode) {
    case FUSE_READ:
      return take_read(share, message);
    case FUSE_WRITE:
      ELEVD_ASSERT(reinterpret_cast<std::uintptr_t>(message + kWriteHeader) % kPage == 0);
      return take_write(share, message);
    case FUSE_FSYNC:
      return take_fsync(share, message);
    case FUSE_FALLOCATE:
      return take_fallocate(share, message);
    case FUSE_LSEEK:
      return take_lseek(share, message);
    case FUSE_INTERRUPT:
      return;  // the caller waits for the answer (docs/spec/fuse.md section 11)
    default:
      share.disk->connection().process(message, bytes);
  }
}

FrontRequest& DevFront::begin(Share& share, const std::byte* message) {
  FrontRequest* request = requests_.take();
  ELEVD_ASSERT(request != nullptr);  // has_memory() said so
  const fuse_in_header& header = header_of(message);
  request->disk = share.disk;
  request->front = this;
  request->unique = header.unique;
  request->opcode = header.opcode;
  request->stage = Stage::plain;
  request->unaligned = false;
  request->durable = false;
  request->holds_range = false;
  request->buffer = nullptr;
  request->memory.store(nullptr, std::memory_order_relaxed);
  request->view.store(nullptr, std::memory_order_relaxed);
  request->bio.issuer = header.pid;
  request->bio.flags = sched::kBioSync;
  request->bio.priority = issuers_.priority(header.pid, worker_.worker().now);
  return *request;
}

/// Submits the whole blocks that the byte range lies in.
void DevFront::submit_widened(FrontRequest& request) {
  const ByteRange range = request.widened(request.disk->backing().geometry().logical_block);
  request.bio.start = {range.from / sched::kSectorBytes};
  request.bio.length = {(range.to - range.from) / sched::kSectorBytes};
  request.disk->queue().submit(worker_.worker(), request.bio);
}

void DevFront::take_read(Share& share, std::byte* message) {
  const auto& in = body_of<fuse_read_in>(message);
  const std::uint64_t size = share.disk->bytes();
  if (in.offset >= size || in.size == 0) {
    reply(share.fd, header_of(message).unique, 0, nullptr, 0);
    return;
  }
  FrontRequest& request = begin(share, message);
  request.bio.op = sched::Op::read;
  request.offset = in.offset;
  request.length = std::min<std::uint64_t>(in.size, size - in.offset);
  submit_widened(request);
}

/// The payload stays where it was read to; the buffer goes with the request.
void DevFront::take_write(Share& share, std::byte* message) {
  const auto& in = body_of<fuse_write_in>(message);
  const Geometry& geometry = share.disk->backing().geometry();
  const std::uint64_t unique = header_of(message).unique;
  if (in.size == 0) {
    const fuse_write_out out{};
    reply(share.fd, unique, 0, &out, sizeof(out));
    return;
  }
  int error = 0;
  if (geometry.read_only) error = EROFS;
  if (in.offset >= geometry.bytes) error = ENOSPC;
  if (error != 0) {
    reply(share.fd, unique, error, nullptr, 0);
    return;
  }
  FrontRequest& request = begin(share, message);
  request.opcode = FUSE_WRITE;
  request.bio.op = sched::Op::write;
  // The kernel sends no FSYNC after a direct write that was to be durable.
  request.durable = (in.flags & O_DSYNC) != 0;
  request.buffer = receive_;
  receive_ = nullptr;
  request.offset = in.offset;
  request.length = std::min<std::uint64_t>(in.size, geometry.bytes - in.offset);
  share.held += request.length;
  request.memory.store(message + kWriteHeader - in.offset % geometry.logical_block,
                       std::memory_order_relaxed);
  request.unaligned =
      geometry.direct && ((request.offset | request.length) % geometry.logical_block) != 0;
  if (request.unaligned) [[unlikely]] {
    share.disk->unaligned_begins(worker_.worker().now);
  }
  start_write(share, request);
}

void DevFront::take_fsync(Share& share, std::byte* message) {
  FrontRequest& request = begin(share, message);
  request.bio.op = sched::Op::flush;
  request.bio.flags |= sched::kBioPreflush;
  request.length = 0;
  request.bio.start = {};
  request.bio.length = {};
  share.disk->queue().submit(worker_.worker(), request.bio);
}

void DevFront::take_fallocate(Share& share, std::byte* message) {
  const auto& in = body_of<fuse_fallocate_in>(message);
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
    reply(share.fd, header_of(message).unique, error, nullptr, 0);
    return;
  }
  FrontRequest& request = begin(share, message);
  request.bio.op = punch ? sched::Op::discard : sched::Op::write_zeroes;
  request.offset = in.offset;
  request.length = std::min(in.length, geometry.bytes - in.offset);
  start_write(share, request);
}

void DevFront::take_lseek(Share& share, std::byte* message) {
  const auto& in = body_of<fuse_lseek_in>(message);
  const off_t at = share.disk->backing().seek(in.offset, static_cast<int>(in.whence));
  if (at < 0) {
    reply(share.fd, header_of(message).unique, static_cast<int>(-at), nullptr, 0);
    return;
  }
  const fuse_lseek_out out{static_cast<std::uint64_t>(at)};
  reply(share.fd, header_of(message).unique, 0, &out, sizeof(out));
}

/// ENOENT and ENODEV: the request was interrupted or the connection aborted; not an error.
void DevFront::reply(int fd, std::uint64_t unique, int error, const void* body, std::size_t bytes) {
  fuse_out_header header{};
  header.unique = unique;
  header.error = -error;
  header.len = static_cast<std::uint32_t>(sizeof(header) + bytes);
  std::array<iovec, 2> parts{iovec{&header, sizeof(header)}, iovec{const_cast<void*>(body), bytes}};
  ssize_t written = 0;
  do {
    written = writev(fd, parts.data(), bytes != 0 ? 2 : 1);
  } while (written < 0 && errno == EINTR);
  if (written < 0 && errno != ENOENT && errno != ENODEV) {
    log_once_per("reply", std::chrono::seconds(10), Level::error,
                 "the kernel refused an answer: {}", std::strerror(errno));
  }
}

std::byte* DevFront::take_read_buffer() {
  std::byte* buffer = buffers_.take();
  return buffer == nullptr ? nullptr : buffer + kPage;
}

void DevFront::put_read_buffer(std::byte* memory) { buffers_.put(memory - kPage); }

void DevFront::answer(FrontRequest& request, IoWorker& worker) {
  if (request.stage == Stage::head || request.stage == Stage::tail) [[unlikely]] {
    to_owner(request, worker);
    return;
  }
  const int fd = request.disk->connection().fd();
  const int error = request.bio.error.load(std::memory_order_relaxed);
  if (error != 0) {
    reply(fd, request.unique, error, nullptr, 0);
  } else if (request.opcode == FUSE_READ) {
    reply(fd, request.unique, 0, request.payload(), request.length);
  } else if (request.opcode == FUSE_WRITE) {
    fuse_write_out out{};
    out.size = static_cast<std::uint32_t>(request.length);
    reply(fd, request.unique, 0, &out, sizeof(out));
  } else {
    reply(fd, request.unique, 0, nullptr, 0);
  }
  if (request.holds_range) [[unlikely]] {
    release_range(request, worker);
  }
  std::byte* memory = request.memory.load(std::memory_order_relaxed);
  if (request.opcode == FUSE_READ && memory != nullptr) send_buffer_home(memory - kPage, worker);
  if (request.unaligned) [[unlikely]] {
    request.disk->unaligned_ends();
  }
  if (&worker == &worker_) {
    release(request);
  } else if (requests_.home().push(request)) {
    worker.wake_peer(worker_.worker().index());
  }
}

/// The buffer of a READ belongs to whoever dispatched it, which need not be this worker.
void DevFront::send_buffer_home(std::byte* buffer, IoWorker& worker) {
  BufferPool& pool = BufferPool::of(buffer);
  if (pool.owner() == worker.worker().index()) {
    pool.put(buffer);
    worker.memory_freed();
  } else if (pool.send_home(buffer)) {
    worker.wake_peer(pool.owner());
  }
}

void DevFront::release(FrontRequest& request) {
  if (request.buffer != nullptr) {
    buffers_.put(request.buffer);
    for (Share& share : shares_) {
      if (share.disk == request.disk) share.held -= request.length;
    }
  }
  request.disk = nullptr;
  requests_.put(request);
}

void DevFront::collect_home() {
  if (buffers_.collect_home()) worker_.memory_freed();
  FrontRequest* request = requests_.home().take_all();
  while (request != nullptr) {
    FrontRequest* next = request->next_free;
    if (request->stage == Stage::plain) {
      release(*request);
    } else {
      ready_.push_back(request->bio);
    }
    request = next;
  }
}

void DevFront::stop_admitting(Disk& disk) {
  if (Share* share = share_of(disk); share != nullptr) share->admitting = false;
}

void DevFront::fail_all() {
  collect_home();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    FrontRequest& request = requests_.at(i);
    if (request.disk == nullptr) continue;
    reply(request.disk->connection().fd(), request.unique, EIO, nullptr, 0);
  }
}

}  // namespace elevd::daemon
