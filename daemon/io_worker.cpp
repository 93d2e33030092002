// SPDX-License-Identifier: Apache-2.0
#include "io_worker.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "log.hpp"
#include "sched/assertion.hpp"

namespace elevd::daemon {
namespace {

/// What a completion belongs to: the low bits of its user data.
enum Kind : std::uint64_t {
  kOperation = 0,
  kDevEvent = 1,
  kWakeUp = 2,
  kNothing = 3,
  kRingEntry = 4
};
constexpr std::uint64_t kKindMask = 7;
/// Completion entries for everything that is no request: polls, wake-ups, messages.
constexpr unsigned kReservedCompletions = 256;
/// Address space for this many payloads in the hands of one worker.
constexpr std::size_t kBuffers = 1536;
/// In the ring's table of files: a disk's connection, then its backing.
constexpr unsigned kPlacesPerDisk = 2;

unsigned place_of_connection(const Disk& disk) { return kPlacesPerDisk * disk.index(); }
unsigned place_of_backing(const Disk& disk) { return kPlacesPerDisk * disk.index() + 1; }

std::uint64_t tagged(const void* object, Kind kind) {
  return reinterpret_cast<std::uint64_t>(object) | kind;
}

/// The bytes of `bio` that are to be moved: all of its blocks where the backing can do no less.
ByteRange bytes_of(const sched::Bio& bio, const FrontRequest& front, bool whole_blocks) {
  ByteRange range{bio.start.offset().value, bio.end().offset().value};
  if (whole_blocks) return range;
  return {std::max(range.from, front.offset), std::min(range.to, front.offset + front.length)};
}

std::byte* memory_of(const FrontRequest& front, std::uint64_t at) {
  return front.memory.load(std::memory_order_acquire) + (at - front.origin());
}

bool has_payload(sched::Op op) { return op == sched::Op::read || op == sched::Op::write; }

}  // namespace

IoWorker::IoWorker(unsigned index, WorkerTeam& team)
    : WorkerLoop(index, team.workers, *this),
      WorkerPort(worker().mailbox),
      team_(team),
      buffers_(kBuffers, index),
      dev_(*this),
      uring_(team.ring_entries != 0 ? std::make_unique<UringFront>(*this) : nullptr),
      wake_up_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      operations_(std::make_unique<Operation[]>(team.operations)),
      operations_left_(team.operations) {
  if (!wake_up_) throw std::system_error(errno, std::generic_category(), "eventfd");
  for (unsigned i = 0; i < team.operations; ++i) {
    operations_[i].next_free = free_operations_;
    free_operations_ = &operations_[i];
  }
}

IoWorker::~IoWorker() = default;

void IoWorker::serve(const std::function<void(const char* failure)>& ready) {
  try {
    ring_ = std::make_unique<Ring>(team_.operations + team_.ring_entries + kReservedCompletions,
                                   uring_ != nullptr);
  } catch (const std::system_error& error) {
    ready(error.what());
    return;
  }
  if (uring_) pin();
  has_buffer_table_ = uring_ && ring_->make_buffer_table(team_.disks);
  has_file_table_ = ring_->make_file_table(kPlacesPerDisk * team_.disks);
  arm_wake_up();
  ready(nullptr);
  run();
  ring_.reset();  // in the thread that made it
}

void IoWorker::add_disk(Disk& disk) {
  queues_.push_back(&disk.queue());
  if (disk.model() != nullptr) modelled_.push_back(&disk);
  // One that cannot be named by its place is looked up.
  has_file_table_ =
      has_file_table_ && ring_->set_file(place_of_connection(disk), disk.connection().fd()) &&
      (disk.backing().fd() < 0 || ring_->set_file(place_of_backing(disk), disk.backing().fd()));
  dev_.add(disk);
  if (disk.connection().uses_uring()) uring_->add(disk);
}

/// Without a table descriptors are looked up for each submission.
void IoWorker::name_files(Disk& disk) {
  if (!has_file_table_) return;
  const int backing = disk.backing().fd();
  if (ring_->set_file(place_of_connection(disk), disk.connection().fd()) &&
      (backing < 0 || ring_->set_file(place_of_backing(disk), backing))) {
    return;
  }
  has_file_table_ = false;
  ring_->drop_file_table();
}

void IoWorker::remove_disk(Disk& disk) {
  std::erase(queues_, &disk.queue());
  std::erase(modelled_, &disk);
  std::erase(starved_, &disk.queue());
  disk.queue().drop_run(worker());
  each_front([&disk](Front& front) { front.remove(disk); });
  // The table would keep the lock of the backing.
  if (!has_file_table_) return;
  for (const unsigned place : {place_of_connection(disk), place_of_backing(disk)}) {
    [[maybe_unused]] const bool emptied = ring_->set_file(place, -1);
  }
}

/// A request and its client's answer stay on one CPU: that of the queue (docs/spec/fuse.md 8.6).
void IoWorker::pin() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (const unsigned cpu : queues_of_worker(worker().index(), team_size(), possible_cpus())) {
    if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &mine);
  }
  // None of them allowed: anywhere is as good as anywhere else.
  if (CPU_COUNT(&mine) != 0) sched_setaffinity(0, sizeof(mine), &mine);
}

// --- The ring ---------------------------------------------------------------------------------

void IoWorker::name_file(io_uring_sqe& sqe, unsigned place, int fd) const {
  sqe.fd = has_file_table_ ? static_cast<int>(place) : fd;
  if (has_file_table_) sqe.flags |= IOSQE_FIXED_FILE;
}

io_uring_sqe& IoWorker::ring_command(Disk& disk, void* object) {
  io_uring_sqe& sqe = ring_->sqe();
  std::memset(static_cast<void*>(&sqe), 0, 2 * sizeof(sqe));
  sqe.opcode = IORING_OP_URING_CMD;
  name_file(sqe, place_of_connection(disk), disk.connection().fd());
  sqe.user_data = tagged(object, kRingEntry);
  return sqe;
}

void IoWorker::arm_wake_up() {
  io_uring_sqe& sqe = ring_->sqe();
  // The descriptor is non-blocking for wake(); a poll waits all the same.
  io_uring_prep_poll_add(&sqe, wake_up_.get(), POLLIN);
  sqe.user_data = tagged(nullptr, kWakeUp);
}

void IoWorker::wake() {
  const std::uint64_t one = 1;
  // It can only fail when the counter is full, and then the worker is woken already.
  [[maybe_unused]] const ssize_t written = write(wake_up_.get(), &one, sizeof(one));
}

void IoWorker::poll(int fd, unsigned events, void* object) {
  io_uring_sqe& sqe = ring_->sqe();
  io_uring_prep_poll_add(&sqe, fd, events);
  sqe.user_data = tagged(object, kDevEvent);
}

void IoWorker::cancel_poll(void* object) {
  io_uring_sqe& sqe = ring_->sqe();
  io_uring_prep_poll_remove(&sqe, tagged(object, kDevEvent));
  sqe.user_data = tagged(nullptr, kNothing);
}

void IoWorker::submit(bool sleep, std::optional<sched::Instant> until) {
  std::uint64_t& to_wake = worker().to_wake;
  while (to_wake != 0) {
    const auto peer = static_cast<unsigned>(std::countr_zero(to_wake));
    to_wake &= to_wake - 1;
    io_uring_sqe& sqe = ring_->sqe();
    io_uring_prep_msg_ring(&sqe, team_.io_workers[peer]->ring_->fd(), 0, tagged(nullptr, kNothing),
                           0);
    sqe.user_data = tagged(nullptr, kNothing);
    sqe.flags |= IOSQE_CQE_SKIP_SUCCESS;
  }
  ring_->submit(sleep, until, worker().now);
}

void IoWorker::reap() {
  const unsigned reaped = ring_->reap([this](std::uint64_t data, int result, unsigned) {
    void* object = reinterpret_cast<void*>(data & ~kKindMask);
    switch (data & kKindMask) {
      case kOperation:
        return completed(*static_cast<Operation*>(object), result);
      case kDevEvent:
        return dev_.on_event(object, result);
      case kRingEntry:
        return uring_->on_event(object, result);
      case kWakeUp: {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t n = read(wake_up_.get(), &count, sizeof(count));
        return arm_wake_up();
      }
      default:
        return;
    }
  });
  if (reaped != 0) last_event_ = worker().now;
  if (memory_freed_ && !starved_.empty()) run_starved();
  memory_freed_ = false;
  look_at_models();
}

bool IoWorker::may_sleep() {
  if (memory_freed_ && !starved_.empty()) return false;
  if (team_.busy_poll.ns != 0 && worker().now - last_event_ < team_.busy_poll) return false;
  return dev_.may_sleep() && (!uring_ || uring_->may_sleep());
}

void IoWorker::admit() {
  dev_.admit();
  if (uring_) uring_->admit();
}

// --- Requests to the backing ------------------------------------------------------------------

unsigned IoWorker::budget(sched::RequestQueue& queue) {
  if (operations_left_ == 0) starved(queue);
  return operations_left_;
}

bool IoWorker::burst_is_over(sched::RequestQueue& queue) {
  bool over = true;
  each_front([&over, &disk = *static_cast<Disk*>(queue.driver_data)](Front& front) {
    over = over && front.burst_is_over(disk);
  });
  return over;
}

void IoWorker::starved(sched::RequestQueue& queue) {
  if (std::find(starved_.begin(), starved_.end(), &queue) == starved_.end()) {
    starved_.push_back(&queue);
  }
}

void IoWorker::run_starved() {
  for (sched::RequestQueue* queue : starved_) queue->run_later(worker());
  starved_.clear();
}

bool IoWorker::issue(sched::Request& rq) {
  auto& disk = *static_cast<Disk*>(rq.queue->driver_data);
  if (disk.backing().kind() == BackingKind::inline_) return issue_inline(disk, rq);
  return issue_on_ring(disk, rq);
}

/// Every READ of `rq` gets memory. Pieces of one READ may be dispatched by two workers at once:
/// the first one's buffer counts.
bool IoWorker::find_memory(sched::Request& rq) {
  for (sched::Bio* bio = rq.first; bio != nullptr; bio = bio->next) {
    FrontRequest& front = front_of(bio->root());
    if (front.memory.load(std::memory_order_acquire) != nullptr) continue;
    std::byte* memory = take_buffer();
    if (memory == nullptr) {
      starved(*rq.queue);
      return false;
    }
    std::byte* none = nullptr;
    if (!front.memory.compare_exchange_strong(none, memory, std::memory_order_acq_rel)) {
      put_buffer(memory);
    }
  }
  return true;
}

int IoWorker::do_inline(Disk& disk, sched::Op op, const sched::Bio& bio, FrontRequest& front) {
  Backing& backing = disk.backing();
  const ByteRange range = bytes_of(bio, front, false);
  const auto length = static_cast<std::size_t>(range.length());
  if (length == 0) return 0;
  if (op == sched::Op::discard) return -backing.discard(range.from, length);
  if (op == sched::Op::write_zeroes) return -backing.write_zeroes(range.from, length);
  ssize_t done = 0;
  if (op == sched::Op::read) {
    done = backing.read(range.from, {memory_of(front, range.from), length});
  } else {
    done = backing.write(range.from, {memory_of(front, range.from), length});
  }
  if (done < 0) return static_cast<int>(-done);
  return static_cast<std::size_t>(done) == length ? 0 : EIO;
}

bool IoWorker::issue_inline(Disk& disk, sched::Request& rq) {
  const bool shown = rq.op == sched::Op::read && show_views(disk, rq);
  if (rq.op == sched::Op::read && !shown && !find_memory(rq)) return false;
  at_device(disk, rq);
  int error = 0;
  if (rq.op == sched::Op::flush) {
    error = -disk.backing().flush();
  } else if (!shown) {  // else the answer is sent from the stored bytes: nothing to copy
    for (sched::Bio* bio = rq.first; bio != nullptr; bio = bio->next) {
      const int failed = do_inline(disk, rq.op, *bio, front_of(bio->root()));
      if (failed != 0) {
        report(disk, rq, failed);
        bio->root().fail(failed);
      }
    }
  }
  if (error != 0) report(disk, rq, error);
  done(disk, rq, error);
  return true;
}

/// True if every READ of `rq` can be answered from the backing's own bytes.
bool IoWorker::show_views(Disk& disk, sched::Request& rq) {
  for (sched::Bio* bio = rq.first; bio != nullptr; bio = bio->next) {
    FrontRequest& front = front_of(bio->root());
    if (front.view.load(std::memory_order_relaxed) != nullptr) continue;
    if (front.memory.load(std::memory_order_relaxed) != nullptr) return false;
    const std::byte* view = disk.backing().direct_read_view(front.offset, front.length);
    if (view == nullptr) return false;
    front.view.store(view, std::memory_order_relaxed);
  }
  return true;
}

bool IoWorker::issue_on_ring(Disk& disk, sched::Request& rq) {
  if (free_operations_ == nullptr) {
    starved(*rq.queue);
    return false;
  }
  if (rq.op == sched::Op::read && !find_memory(rq)) return false;
  Operation& operation = *free_operations_;
  free_operations_ = operation.next_free;
  --operations_left_;
  operation.rq = &rq;
  operation.disk = &disk;
  operation.retry = nullptr;
  operation.offset = 0;
  operation.left = 0;
  operation.first = 0;
  operation.count = 0;
  at_device(disk, rq);
  for (sched::Bio* bio = rq.first; bio != nullptr; bio = bio->next) add_bio(operation, *bio);
  start(operation);
  return true;
}

void IoWorker::add_bio(Operation& operation, sched::Bio& bio) {
  const bool payload = has_payload(bio.op);
  FrontRequest& front = front_of(bio.root());
  // A READ always gets whole blocks: its bytes need not lie next to those it was merged with.
  const bool whole = payload && (bio.op == sched::Op::read ||
                                 operation.disk->backing().geometry().direct_alignment > 1);
  const ByteRange range = bytes_of(bio, front, whole);
  if (operation.left == 0) operation.offset = range.from;
  operation.left += range.length();
  if (!payload) return;
  ELEVD_ASSERT(operation.count < kMaxVector);
  operation.vector[operation.count++] = {memory_of(front, range.from),
                                         static_cast<std::size_t>(range.length())};
}

/// One piece of memory that is pinned, one that is not, or several.
void IoWorker::prepare_transfer(io_uring_sqe& sqe, const Operation& operation, int fd) {
  const iovec* vector = operation.vector.data() + operation.first;
  const unsigned count = operation.count - operation.first;
  const auto bytes = static_cast<unsigned>(vector->iov_len);
  const sched::Request& rq = *operation.rq;
  const sched::Bio& bio = operation.retry != nullptr ? *operation.retry : *rq.first;
  const bool pinned = count == 1 && uring_ && uring_->is_pinned(bio, vector->iov_base);
  const auto place = static_cast<int>(operation.disk->index());
  if (rq.op == sched::Op::read) {
    if (pinned) {
      io_uring_prep_read_fixed(&sqe, fd, vector->iov_base, bytes, operation.offset, place);
    } else if (count == 1) {
      io_uring_prep_read(&sqe, fd, vector->iov_base, bytes, operation.offset);
    } else {
      io_uring_prep_readv(&sqe, fd, vector, count, operation.offset);
    }
    return;
  }
  if (pinned) {
    io_uring_prep_write_fixed(&sqe, fd, vector->iov_base, bytes, operation.offset, place);
  } else if (count == 1) {
    io_uring_prep_write(&sqe, fd, vector->iov_base, bytes, operation.offset);
  } else {
    io_uring_prep_writev(&sqe, fd, vector, count, operation.offset);
  }
  if ((rq.bio_flags & sched::kBioFua) != 0) sqe.rw_flags = RWF_DSYNC;
}

void IoWorker::start(Operation& operation) {
  const Geometry& geometry = operation.disk->backing().geometry();
  const int fd = operation.disk->backing().fd();
  const sched::Request& rq = *operation.rq;
  io_uring_sqe& sqe = ring_->sqe();
  switch (rq.op) {
    case sched::Op::read:
    case sched::Op::write:
      prepare_transfer(sqe, operation, fd);
      break;
    case sched::Op::flush:
      io_uring_prep_fsync(&sqe, fd, IORING_FSYNC_DATASYNC);
      break;
    case sched::Op::discard:
      io_uring_prep_fallocate(&sqe, fd, geometry.discard_fallocate_mode,
                              static_cast<off_t>(operation.offset),
                              static_cast<off_t>(operation.left));
      break;
    case sched::Op::write_zeroes:
      io_uring_prep_fallocate(&sqe, fd, geometry.write_zeroes_fallocate_mode,
                              static_cast<off_t>(operation.offset),
                              static_cast<off_t>(operation.left));
      break;
  }
  name_file(sqe, place_of_backing(*operation.disk), fd);
  sqe.user_data = tagged(&operation, kOperation);
}

// --- And back ---------------------------------------------------------------------------------

void IoWorker::completed(Operation& operation, int result) {
  if (result == -EAGAIN || result == -EINTR) return start(operation);
  if (result < 0) return failed(operation, -result);
  if (has_payload(operation.rq->op)) {
    // Nothing done and nothing said: the backing has become shorter.
    if (result == 0 && operation.left != 0) return failed(operation, EIO);
    operation.advance(static_cast<std::uint64_t>(result));
    if (operation.left != 0) {
      // It ends inside a block: so does the file, and the rest cannot be asked for.
      const unsigned alignment = operation.disk->backing().geometry().direct_alignment;
      if (operation.offset % alignment != 0) return failed(operation, EIO);
      return start(operation);
    }
  }
  if (operation.retry != nullptr) return next_retry(operation);
  finish(operation, 0);
}

void IoWorker::failed(Operation& operation, int error) {
  sched::Request& rq = *operation.rq;
  if (operation.retry != nullptr) {
    report(*operation.disk, rq, error);
    operation.retry->root().fail(error);
    return next_retry(operation);
  }
  if (has_payload(rq.op) && rq.first != rq.last) {
    operation.retry = rq.first;
    return retry(operation);
  }
  report(*operation.disk, rq, error);
  finish(operation, error);
}

void IoWorker::next_retry(Operation& operation) {
  operation.retry = operation.retry->next;
  if (operation.retry == nullptr) return finish(operation, 0);
  retry(operation);
}

void IoWorker::retry(Operation& operation) {
  operation.left = 0;
  operation.first = 0;
  operation.count = 0;
  add_bio(operation, *operation.retry);
  start(operation);
}

void IoWorker::finish(Operation& operation, int error) {
  sched::Request& rq = *operation.rq;
  operation.next_free = free_operations_;
  free_operations_ = &operation;
  ++operations_left_;
  memory_freed_ = true;
  done(*operation.disk, rq, error);
}

// --- Device models ----------------------------------------------------------------------------

void IoWorker::at_device(Disk& disk, sched::Request& rq) {
  if (disk.model() != nullptr) [[unlikely]] {
    if (const auto next = disk.model()->add(rq, worker().now)) worker().bound_sleep(*next);
  }
}

/// The I/O of `rq` is done; a modelled device may hold its completion back.
void IoWorker::done(Disk& disk, sched::Request& rq, int error) {
  if (disk.model() != nullptr && !disk.model()->io_done(rq, error)) return;
  rq.queue->complete(worker(), rq, error);
}

/// Completes what is due, whichever worker issued it, and sees to it that the next is kept.
void IoWorker::look_at_models() {
  for (Disk* disk : modelled_) {
    const auto next = disk->model()->take(worker().now, [this](sched::Request& rq, int error) {
      rq.queue->complete(worker(), rq, error);
    });
    if (next) worker().bound_sleep(*next);
  }
}

void IoWorker::report(Disk& disk, const sched::Request& rq, int error) {
  constexpr std::array<const char*, sched::kOps> kNames = {"read", "write", "flush", "discard",
                                                           "write zeroes"};
  log_once_per("io " + disk.name(), std::chrono::seconds(10), Level::error,
               "{}: {} of {} sectors at sector {} failed: {}", disk.name(),
               kNames[static_cast<unsigned>(rq.op)], rq.length.value, rq.start.value,
               std::strerror(error));
}

// --- Answers ----------------------------------------------------------------------------------

void IoWorker::answer(sched::Bio& bio) {
  FrontRequest& request = front_of(bio);
  request.front->answer(request, *this);
}

void IoWorker::left_closed_gate(sched::RequestQueue& queue) {
  static_cast<Disk*>(queue.driver_data)->freezer().signal();
}

void IoWorker::connection_gone(Disk& disk) {
  if (!disk.gone.exchange(true)) team_.connection_gone(disk);
}

}  // namespace elevd::daemon
