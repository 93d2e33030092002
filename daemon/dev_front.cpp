// SPDX-License-Identifier: Apache-2.0
#include "dev_front.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "io_worker.hpp"
#include "log.hpp"
#include "sched/assertion.hpp"

namespace elevd::daemon {
namespace {

/// Requests of callers in the hands of one worker, over all its disks.
constexpr std::size_t kRequests = 8192;
/// Buffers that READs can count on, whatever WRITEs hold.
constexpr std::size_t kReadReserve = 64;

}  // namespace

DevFront::DevFront(IoWorker& worker) : BlockFront(worker), requests_(kRequests) {}

void DevFront::add(Disk& disk) {
  DevShare& share = shares_.emplace_back();
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

BlockFront::Share* DevFront::share_of(const Disk& disk) {
  for (DevShare& share : shares_) {
    if (share.disk == &disk) return &share;
  }
  return nullptr;
}

void DevFront::on_event(void* object, int) {
  auto& share = *static_cast<DevShare*>(object);
  share.armed = false;
  share.readable = true;
  if (!share.removed) return;
  shares_.remove_if([&share](const DevShare& each) { return &each == &share; });
}

void DevFront::arm(DevShare& share) {
  share.armed = true;
  // Exclusive: of several workers that wait, a request wakes one.
  worker_.poll(share.fd, EPOLLIN | EPOLLEXCLUSIVE, &share);
}

bool DevFront::has_memory(const DevShare& share) const {
  return !requests_.empty() && share.held < share.disk->write_memory_per_worker() &&
         (receive_ != nullptr || worker_.buffers().available() > kReadReserve);
}

void DevFront::admit() {
  collect_home();
  if (!ready_.empty()) [[unlikely]] {
    go_on();
  }
  for (DevShare& share : shares_) {
    if (share.readable && share.admitting) read_requests(share);
  }
}

/// One system call, for a bio that has to be cut.
bool DevFront::burst_is_over(Disk& disk) {
  pollfd connection{disk.connection().fd(), POLLIN, 0};
  return ::poll(&connection, 1, 0) == 0;
}

bool DevFront::may_sleep() {
  collect_home();
  BufferPool& buffers = worker_.buffers();
  if (worker_.is_starved() && !buffers.wait()) return false;
  if (!ready_.empty() && (buffers.available() != 0 || !buffers.wait())) return false;
  for (DevShare& share : shares_) {
    if (!share.readable || !share.admitting) continue;
    if (has_memory(share)) return false;
    // Some of it may come home from another worker, which must then wake this one.
    if (!home_.wait() || !buffers.wait()) return false;
  }
  return true;
}

void DevFront::read_requests(DevShare& share) {
  for (unsigned n = 0; n < sched::kEntriesPerTurn; ++n) {
    if (!has_memory(share)) return;
    if (receive_ == nullptr) receive_ = worker_.take_buffer();
    std::byte* message = receive_ - kWriteHeader;
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

void DevFront::take_request(DevShare& share, std::byte* message, std::size_t bytes) {
  const auto& header = *reinterpret_cast<const fuse_in_header*>(message);
  if (is_io(header.opcode)) [[likely]] {
    FrontRequest* request = requests_.take();
    ELEVD_ASSERT(request != nullptr);  // has_memory() said so
    take(share, *request, {header, message + sizeof(header), message + kWriteHeader});
  } else if (header.opcode != FUSE_INTERRUPT) {
    // INTERRUPT: the caller waits for the answer (docs/spec/fuse.md section 11).
    share.disk->connection().process(message, bytes);
  }
}

/// The buffer goes with the request.
void DevFront::holds_payload(Share& share, FrontRequest& request) {
  static_cast<DevShare&>(share).held += request.length;
  receive_ = nullptr;
}

void DevFront::send(FrontRequest& request, int error, const void* body, std::size_t bytes) {
  reply(request.disk->connection().fd(), request.unique, error, body, bytes);
  release(request);
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

void DevFront::answer(FrontRequest& request, IoWorker& worker) {
  if (goes_on(request)) [[unlikely]] {
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
  if (request.opcode == FUSE_READ && memory != nullptr) send_buffer_home(memory, worker);
  if (request.unaligned) [[unlikely]] {
    request.disk->unaligned_ends();
  }
  if (&worker == &worker_) {
    release(request);
  } else if (home_.push(request)) {
    worker.wake_peer(worker_.worker().index());
  }
}

/// The buffer of a READ belongs to whoever dispatched it, which need not be this worker.
void DevFront::send_buffer_home(std::byte* memory, IoWorker& worker) {
  BufferPool& pool = BufferPool::of(memory);
  if (pool.owner() == worker.worker().index()) {
    pool.put(memory);
    worker.memory_freed();
  } else if (pool.send_home(memory)) {
    worker.wake_peer(pool.owner());
  }
}

void DevFront::release(FrontRequest& request) {
  if (request.received != nullptr) {
    worker_.put_buffer(request.received);
    for (DevShare& share : shares_) {
      if (share.disk == request.disk) share.held -= request.length;
    }
  }
  request.disk = nullptr;
  requests_.put(request);
}

void DevFront::collect_home() {
  if (worker_.buffers().collect_home()) worker_.memory_freed();
  collect_requests();
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
