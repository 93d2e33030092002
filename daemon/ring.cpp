// SPDX-License-Identifier: Apache-2.0
#include "ring.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace elevd::daemon {
namespace {

constexpr unsigned kSubmissions = 256;

}  // namespace

Ring::Ring(unsigned completions, bool wide) {
  const unsigned width = wide ? IORING_SETUP_SQE128 : 0;
  io_uring_params params{};
  params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE |
                 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CLAMP | width;
  params.cq_entries = completions;
  int failed = io_uring_queue_init_params(kSubmissions, &ring_, &params);
  if (failed == -EINVAL) {  // before Linux 6.1
    deferred_ = false;
    params = {};
    params.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | width;
    params.cq_entries = completions;
    failed = io_uring_queue_init_params(kSubmissions, &ring_, &params);
  }
  if (failed != 0) throw std::system_error(-failed, std::generic_category(), "io_uring_setup");
}

Ring::~Ring() { io_uring_queue_exit(&ring_); }

bool Ring::make_file_table(unsigned places) {
  return io_uring_register_files_sparse(&ring_, places) == 0;
}

bool Ring::set_file(unsigned place, int fd) {
  return io_uring_register_files_update(&ring_, place, &fd, 1) == 1;
}

void Ring::drop_file_table() { io_uring_unregister_files(&ring_); }

bool Ring::make_buffer_table(unsigned places) {
  return io_uring_register_buffers_sparse(&ring_, places) == 0;
}

bool Ring::set_buffer(unsigned place, const iovec& memory) {
  const __u64 tag = 0;
  return io_uring_register_buffers_update_tag(&ring_, place, &memory, &tag, 1) == 1;
}

io_uring_sqe& Ring::sqe() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  while (sqe == nullptr) {
    io_uring_submit(&ring_);
    sqe = io_uring_get_sqe(&ring_);
  }
  return *sqe;
}

void Ring::submit(bool sleep, std::optional<sched::Instant> until, sched::Instant now) {
  if (!sleep) {
    if (deferred_) {
      io_uring_submit_and_get_events(&ring_);
    } else if (io_uring_sq_ready(&ring_) != 0) {
      io_uring_submit(&ring_);
    }
    return;
  }
  io_uring_cqe* cqe = nullptr;
  if (!until) {
    io_uring_submit_and_wait(&ring_, 1);
    return;
  }
  const std::int64_t ns = std::max<std::int64_t>((*until - now).ns, 0);
  __kernel_timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
  io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &time, nullptr);
}

}  // namespace elevd::daemon
