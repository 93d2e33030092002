// SPDX-License-Identifier: Apache-2.0
// A block file over FUSE over io_uring whose server answers every entry at once, without looking at
// it any further: no plug, no tags, no scheduler, no backing. What elevd costs on top of it is the
// block layer. For tests/bench/compare. usage: ring_server FILE BYTES     mounts on FILE until it
// is unmounted or SIGTERM comes
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "daemon/disk_connection.hpp"
#include "daemon/fuse_uring.hpp"
#include "daemon/mounts.hpp"
#include "daemon/pools.hpp"
#include "daemon/ring.hpp"

namespace elevd::daemon {
namespace {

constexpr unsigned kEntries = 256;
constexpr std::size_t kPayload = kMaxRingPayload + kPage;

struct Entry {
  RingHeader* header = nullptr;
  std::byte* payload = nullptr;
  std::array<iovec, 2> registered{};
};

// The queue of one CPU.
class Server : public ReplySink {
 public:
  Server(DiskConnection& connection, unsigned cpu)
      : connection_(connection), cpu_(cpu), ring_(2 * kEntries, true), entries_(kEntries) {
    void* memory = mmap(nullptr, kEntries * (kPayload + kPage), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    auto* at = static_cast<std::byte*>(memory);
    for (Entry& entry : entries_) {
      entry.header = reinterpret_cast<RingHeader*>(at);
      entry.payload = at + kPage;
      entry.registered = {iovec{entry.header, sizeof(RingHeader)}, iovec{entry.payload, kPayload}};
      at += kPayload + kPage;
      command(entry, RingCommandCode::register_entry);
    }
  }

  // Until the connection is gone.
  void serve() {
    while (lost_ < kEntries) {
      ring_.submit(true, std::nullopt, {});
      ring_.reap([this](std::uint64_t data, int result, unsigned) {
        Entry& entry = *reinterpret_cast<Entry*>(data);
        if (result == 0) {
          answer(entry);
        } else {
          ++lost_;
        }
      });
    }
  }

  ssize_t write(std::span<const iovec> parts) override {
    const auto& header = *static_cast<const fuse_out_header*>(parts[0].iov_base);
    std::size_t bytes = 0;
    for (const iovec& part : parts.subspan(1)) {
      std::memcpy(current_->payload + bytes, part.iov_base, part.iov_len);
      bytes += part.iov_len;
    }
    commit(*current_, header.unique, header.error, bytes);
    return static_cast<ssize_t>(sizeof(header) + bytes);
  }

 private:
  void command(Entry& entry, RingCommandCode code) {
    io_uring_sqe& sqe = ring_.sqe();
    std::memset(static_cast<void*>(&sqe), 0, 2 * sizeof(sqe));
    sqe.opcode = IORING_OP_URING_CMD;
    sqe.fd = connection_.fd();
    sqe.cmd_op = static_cast<std::uint32_t>(code);
    sqe.user_data = reinterpret_cast<std::uint64_t>(&entry);
    RingCommand command;
    command.queue = static_cast<std::uint16_t>(cpu_);
    if (code == RingCommandCode::register_entry) {
      sqe.addr = reinterpret_cast<std::uint64_t>(entry.registered.data());
      sqe.len = 2;
    } else {
      command.commit_id = entry.header->commit_id;
    }
    std::memcpy(sqe.cmd, &command, sizeof(command));
  }

  void commit(Entry& entry, std::uint64_t unique, int error, std::size_t bytes) {
    fuse_out_header out{};
    out.len = static_cast<std::uint32_t>(sizeof(out) + bytes);
    out.error = error;
    out.unique = unique;
    std::memcpy(entry.header->in_out.data(), &out, sizeof(out));
    entry.header->payload_bytes = static_cast<std::uint32_t>(bytes);
    command(entry, RingCommandCode::commit_and_fetch);
  }

  void answer(Entry& entry) {
    fuse_in_header in;
    std::memcpy(&in, entry.header->in_out.data(), sizeof(in));
    if (in.opcode == FUSE_READ) {
      const auto& read = *reinterpret_cast<const fuse_read_in*>(entry.header->operation.data());
      commit(entry, in.unique, 0, read.size);
    } else if (in.opcode == FUSE_WRITE) {
      const auto& write = *reinterpret_cast<const fuse_write_in*>(entry.header->operation.data());
      fuse_write_out out{};
      out.size = write.size;
      std::memcpy(entry.payload, &out, sizeof(out));
      commit(entry, in.unique, 0, sizeof(out));
    } else {
      const std::size_t payload = std::min<std::size_t>(entry.header->payload_bytes, kPayload);
      const std::size_t operation = std::min<std::size_t>(128, in.len - sizeof(in) - payload);
      std::vector<std::byte> whole(sizeof(in) + operation + payload);
      std::memcpy(whole.data(), &in, sizeof(in));
      std::memcpy(whole.data() + sizeof(in), entry.header->operation.data(), operation);
      std::memcpy(whole.data() + sizeof(in) + operation, entry.payload, payload);
      current_ = &entry;
      connection_.process(whole.data(), whole.size(), this);
    }
  }

  DiskConnection& connection_;
  unsigned cpu_;
  Ring ring_;
  std::vector<Entry> entries_;
  Entry* current_ = nullptr;
  unsigned lost_ = 0;
};

int serve_file(const std::string& path, std::uint64_t bytes) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  DiskConnection connection(path, BlockFile{bytes, 512, false});
  if (const auto mounted = connection.mount(1024, true); !mounted) {
    std::fprintf(stderr, "ring_server: %s\n", mounted.error().what.c_str());
    return 1;
  }
  if (!connection.uses_uring()) {
    std::fprintf(stderr, "ring_server: the kernel offers no FUSE over io_uring\n");
    return 1;
  }
  std::vector<std::thread> threads;
  const long cpus = sysconf(_SC_NPROCESSORS_CONF);
  for (long cpu = 0; cpu < cpus; ++cpu) {
    threads.emplace_back([&connection, cpu] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<unsigned>(cpu), &set);
      sched_setaffinity(0, sizeof(set), &set);
      Server(connection, static_cast<unsigned>(cpu)).serve();
    });
  }
  std::thread([path, signals] {
    int number = 0;
    sigwait(&signals, &number);
    [[maybe_unused]] const int failed = unmount(path, true);
  }).detach();
  // FORGET and INTERRUPT come here; ENODEV is the end.
  std::vector<std::byte> message(kBufferStride);
  for (;;) {
    pollfd ready{connection.fd(), POLLIN, 0};
    poll(&ready, 1, -1);
    const ssize_t n = read(connection.fd(), message.data(), message.size());
    if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOENT) break;
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace
}  // namespace elevd::daemon

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: ring_server FILE BYTES\n");
    return 2;
  }
  return elevd::daemon::serve_file(argv[1], std::strtoull(argv[2], nullptr, 10));
}
