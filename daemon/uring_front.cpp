// SPDX-License-Identifier: Apache-2.0
#include "uring_front.hpp"

#include <liburing.h>
#include <sys/mman.h>

#include <algorithm>
#include <boost/intrusive/parent_from_member.hpp>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "io_worker.hpp"
#include "log.hpp"

namespace elevd::daemon {
namespace {

/// What the kernel may fill: kMaxRingPayload and the page that unaligned caller memory needs.
constexpr std::size_t kPayload = kMaxRingPayload + kPage;
/// And one more: the widened range of an unaligned request is up to two blocks longer than it.
constexpr std::size_t kPayloadStride = kPayload + kPage;
/// fuse_in_header, the largest operation header, payload.
constexpr std::size_t kWholeMessage = sizeof(fuse_in_header) + 128 + kPayload;

}  // namespace

std::vector<unsigned> queues_of_worker(unsigned index, unsigned workers, unsigned cpus) {
  std::vector<unsigned> queues;
  for (unsigned cpu = index; cpu < cpus; cpu += workers) queues.push_back(cpu);
  return queues;
}

struct UringFront::Entry {
  FrontRequest request;
  UringShare* share = nullptr;
  RingHeader* header = nullptr;
  std::byte* payload = nullptr;
  std::array<iovec, 2> registered{};
  std::uint64_t commit_id = 0;
  std::size_t dirty = 0;       ///< first bytes of the payload that may be other than 0
  std::uint16_t queue = 0;     ///< CPU number
  bool is_registered = false;  ///< its first request came
  bool holds_request = false;  ///< of the kernel, not answered
};

/// Pages of the payloads and headers; they cost nothing until they are touched.
class UringFront::Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(), "address space for ring entries");
    }
    start_ = static_cast<std::byte*>(start);
  }
  ~Memory() { munmap(start_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::byte* at(std::size_t offset) const { return start_ + offset; }

 private:
  std::byte* start_;
  std::size_t bytes_;
};

struct UringFront::UringShare : Share {
  UringShare(std::size_t n, Disk& of)
      : count(n),
        payloads(n * kPayloadStride),
        headers(n * sizeof(RingHeader)),
        entries(std::make_unique<Entry[]>(n)) {
    disk = &of;
  }
  bool removed = false;  ///< kept only until its entries have come back
  std::size_t count;     ///< of entries
  std::size_t with_kernel = 0;
  bool is_pinned = false;  ///< the payloads, for direct I/O
  unsigned place = 0;      ///< in the table of pinned memory
  Memory payloads;
  Memory headers;
  std::unique_ptr<Entry[]> entries;
};

UringFront::UringFront(IoWorker& worker)
    : BlockFront(worker), whole_(std::make_unique<std::byte[]>(kWholeMessage)) {}

UringFront::~UringFront() = default;

const UringFront::Entry& UringFront::entry_of(const FrontRequest& request) {
  return *boost::intrusive::get_parent_from_member(&request, &Entry::request);
}

UringFront::Entry& UringFront::entry_of(FrontRequest& request) {
  return *boost::intrusive::get_parent_from_member(&request, &Entry::request);
}

// --- Entries ----------------------------------------------------------------------------------

void UringFront::add(Disk& disk) {
  const std::vector<unsigned> queues =
      queues_of_worker(worker_.worker().index(), worker_.team_size(), possible_cpus());
  const unsigned per_queue = disk.ring_entries();
  UringShare& share = shares_.emplace_back(queues.size() * per_queue, disk);
  for (std::size_t i = 0; i < share.count; ++i) {
    Entry& entry = share.entries[i];
    entry.share = &share;
    entry.queue = static_cast<std::uint16_t>(queues[i / per_queue]);
    entry.header = reinterpret_cast<RingHeader*>(share.headers.at(i * sizeof(RingHeader)));
    entry.payload = share.payloads.at(i * kPayloadStride);
    entry.registered = {iovec{entry.header, sizeof(RingHeader)}, iovec{entry.payload, kPayload}};
    submit(entry, RingCommandCode::register_entry);
  }
  // Only direct I/O has a use for pinned memory. What cannot be pinned (RLIMIT_MEMLOCK) works too.
  share.place = disk.index();
  share.is_pinned =
      disk.backing().geometry().direct &&
      worker_.pin_memory(share.place, {share.payloads.at(0), share.count * kPayloadStride});
  arrived_.reserve(arrived_.size() + share.count);
  serving_.reserve(arrived_.capacity());
}

bool UringFront::is_pinned(const sched::Bio& bio, const void* memory) const {
  const FrontRequest& request = front_of(bio.root());
  if (request.front != this) return false;
  const Entry& entry = entry_of(request);
  const auto* at = static_cast<const std::byte*>(memory);
  return entry.share->is_pinned && at >= entry.payload && at < entry.payload + kPayloadStride;
}

void UringFront::remove(Disk& disk) {
  collect_requests();
  for (auto it = shares_.begin(); it != shares_.end(); ++it) {
    if (it->disk != &disk) continue;
    it->removed = true;
    // The connection is gone: what arrived last can be answered no more.
    std::erase_if(arrived_, [it](const Entry* entry) { return entry->share == &*it; });
    if (it->with_kernel == 0) erase(*it);
    return;
  }
}

void UringFront::erase(UringShare& share) {
  if (share.is_pinned) {
    [[maybe_unused]] const bool unpinned = worker_.pin_memory(share.place, {});
  }
  shares_.remove_if([&share](const UringShare& each) { return &each == &share; });
}

BlockFront::Share* UringFront::share_of(const Disk& disk) {
  for (UringShare& share : shares_) {
    if (share.disk == &disk) return &share;
  }
  return nullptr;
}

void UringFront::submit(Entry& entry, RingCommandCode code) {
  io_uring_sqe& sqe = worker_.ring_command(*entry.share->disk, &entry);
  sqe.cmd_op = static_cast<std::uint32_t>(code);
  RingCommand command;
  command.queue = entry.queue;
  if (code == RingCommandCode::register_entry) {
    sqe.addr = reinterpret_cast<std::uint64_t>(entry.registered.data());
    sqe.len = static_cast<std::uint32_t>(entry.registered.size());
  } else {
    command.commit_id = entry.commit_id;
  }
  std::memcpy(sqe.cmd, &command, sizeof(command));
  ++entry.share->with_kernel;
}

/// A request has arrived in an entry, or the entry is back without one.
void UringFront::on_event(void* object, int result) {
  Entry& entry = *static_cast<Entry*>(object);
  --entry.share->with_kernel;
  if (entry.share->removed) [[unlikely]] {
    if (entry.share->with_kernel == 0) erase(*entry.share);
    return;
  }
  if (result == 0) [[likely]] {
    entry.is_registered = true;
    entry.holds_request = true;
    entry.commit_id = entry.header->commit_id;
    arrived_.push_back(&entry);
    return;
  }
  if (result == -EAGAIN || result == -EINTR) {
    submit(entry, entry.is_registered ? RingCommandCode::commit_and_fetch
                                      : RingCommandCode::register_entry);
    return;
  }
  lost(entry, -result);
}

/// ENOTCONN, ECANCELED: the connection ends, which its descriptor tells the other front.
void UringFront::lost(Entry& entry, int error) {
  if (error == ENOTCONN || error == ECANCELED) return;
  log_once_per("ring of " + entry.share->disk->name(), std::chrono::seconds(10), Level::error,
               "{}: an entry of the ring of CPU {} is lost: {}", entry.share->disk->name(),
               entry.queue, std::strerror(error));
}

// --- Requests ---------------------------------------------------------------------------------

void UringFront::admit() {
  collect_requests();
  if (!ready_.empty()) [[unlikely]] {
    go_on();
  }
  if (arrived_.empty()) return;
  serving_.swap(arrived_);
  to_serve_ = serving_.size();
  for (Entry* entry : serving_) {
    --to_serve_;
    if (entry->share->admitting) {
      serve(*entry);
    } else {
      arrived_.push_back(entry);  // for fail_all()
    }
  }
  serving_.clear();
}

bool UringFront::may_sleep() {
  collect_requests();
  BufferPool& buffers = worker_.buffers();
  if (!ready_.empty() && (buffers.available() != 0 || !buffers.wait())) return false;
  return home_.wait();
}

void UringFront::serve(Entry& entry) {
  const auto& header = *reinterpret_cast<const fuse_in_header*>(entry.header->in_out.data());
  entry.dirty = std::max<std::size_t>(entry.dirty, entry.header->payload_bytes);
  if (is_io(header.opcode)) [[likely]] {
    take(*entry.share, entry.request, {header, entry.header->operation.data(), entry.payload});
  } else {
    serve_by_libfuse(entry);
  }
}

/// What libfuse answers goes into the entry.
class UringFront::LibfuseReply : public ReplySink {
 public:
  LibfuseReply(UringFront& front, Entry& entry) : front_(front), entry_(entry) {}
  ssize_t write(std::span<const iovec> parts) override {
    const auto& header = *static_cast<const fuse_out_header*>(parts[0].iov_base);
    std::size_t bytes = 0;
    for (const iovec& part : parts.subspan(1)) {
      if (part.iov_len > kPayload - bytes) {
        errno = EINVAL;
        return -1;
      }
      std::memcpy(entry_.payload + bytes, part.iov_base, part.iov_len);
      bytes += part.iov_len;
    }
    entry_.dirty = std::max(entry_.dirty, bytes);
    front_.commit(entry_, -header.error, bytes);
    return static_cast<ssize_t>(sizeof(header) + bytes);
  }

 private:
  UringFront& front_;
  Entry& entry_;
};

/// Puts the parts together as they would have been read from /dev/fuse.
void UringFront::serve_by_libfuse(Entry& entry) {
  fuse_in_header header;
  std::memcpy(&header, entry.header->in_out.data(), sizeof(header));
  entry.request.unique = header.unique;
  const std::size_t payload = std::min<std::size_t>(entry.header->payload_bytes, kPayload);
  const std::size_t fixed = sizeof(header) + payload;
  const std::size_t operation =
      std::min(entry.header->operation.size(), header.len > fixed ? header.len - fixed : 0);
  std::memcpy(whole_.get(), &header, sizeof(header));
  std::memcpy(whole_.get() + sizeof(header), entry.header->operation.data(), operation);
  std::memcpy(whole_.get() + sizeof(header) + operation, entry.payload, payload);
  LibfuseReply reply(*this, entry);
  entry.share->disk->connection().process(whole_.get(), fixed + operation, &reply);
  if (entry.holds_request) commit(entry, EIO, 0);
}

/// The answer is read into the entry's payload at once. Where whole blocks have to be read, an
/// unaligned one is moved to its start at the end.
void UringFront::lend_memory(Share& share, FrontRequest& request) {
  Entry& entry = entry_of(request);
  const Backing& backing = share.disk->backing();
  if (backing.reads_zeroes()) {
    std::memset(entry.payload, 0, entry.dirty);
    entry.dirty = 0;
    request.view.store(entry.payload, std::memory_order_relaxed);
    return;
  }
  const bool whole_blocks = backing.kind() == BackingKind::uring;
  const std::uint64_t before = request.offset % backing.geometry().logical_block;
  request.memory.store(entry.payload - (whole_blocks ? 0 : before), std::memory_order_relaxed);
}

void UringFront::send(FrontRequest& request, int error, const void* body, std::size_t bytes) {
  Entry& entry = entry_of(request);
  if (bytes != 0) std::memcpy(entry.payload, body, bytes);
  entry.dirty = std::max(entry.dirty, bytes);
  commit(entry, error, bytes);
}

void UringFront::commit(Entry& entry, int error, std::size_t bytes) {
  fuse_out_header header{};
  header.len = static_cast<std::uint32_t>(sizeof(header) + bytes);
  header.error = -error;
  header.unique = entry.request.unique;
  std::memcpy(entry.header->in_out.data(), &header, sizeof(header));
  entry.header->payload_bytes = static_cast<std::uint32_t>(bytes);
  entry.holds_request = false;
  submit(entry, RingCommandCode::commit_and_fetch);
}

void UringFront::answer(FrontRequest& request, IoWorker& worker) {
  if (&worker == &worker_) [[likely]] {
    if (goes_on(request)) [[unlikely]] {
      ready_.push_back(request.bio);
      return;
    }
    finish(request);
  } else if (home_.push(request)) {
    worker.wake_peer(worker_.worker().index());
  }
}

void UringFront::finish(FrontRequest& request) {
  if (request.holds_range) [[unlikely]] {
    release_range(request, worker_);
  }
  if (request.unaligned) [[unlikely]] {
    request.disk->unaligned_ends();
  }
  Entry& entry = entry_of(request);
  const int error = request.bio.error.load(std::memory_order_relaxed);
  if (error != 0) {
    commit(entry, error, 0);
  } else if (request.opcode == FUSE_READ) {
    const std::byte* read = request.payload();
    if (read != entry.payload) std::memmove(entry.payload, read, request.length);
    commit(entry, 0, request.length);
  } else if (request.opcode == FUSE_WRITE) {
    fuse_write_out out{};
    out.size = static_cast<std::uint32_t>(request.length);
    std::memcpy(entry.payload, &out, sizeof(out));
    commit(entry, 0, sizeof(out));
  } else {
    commit(entry, 0, 0);
  }
}

void UringFront::fail_all() {
  collect_requests();
  for (UringShare& share : shares_) {
    for (std::size_t i = 0; i < share.count; ++i) {
      if (share.entries[i].holds_request) commit(share.entries[i], EIO, 0);
    }
  }
  arrived_.clear();
}

}  // namespace elevd::daemon
