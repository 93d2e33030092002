// SPDX-License-Identifier: Apache-2.0
// DevFront: the transport over /dev/fuse of one worker.
//
// Owns:       this worker's buffers and front requests; borrows the disks' descriptors.
// Thread:     its worker's; answer() in the thread of the worker that completed the request.
// Invariants: (1) the payload of every WRITE starts on a page; (2) a READ holds a buffer from its
//             dispatch to its answer only; (3) a descriptor is read until it is empty, then polled,
//             exclusively: one request wakes one worker.
// See also:   docs/spec/fuse.md section 7, docs/architecture.md "Front ends".
#pragma once

#include <list>
#include <memory>

#include "disk.hpp"
#include "front.hpp"
#include "issuer_cache.hpp"
#include "pools.hpp"

namespace elevd::daemon {

class IoWorker;

class DevFront : public Front {
 public:
  explicit DevFront(IoWorker& worker);

  void add(Disk& disk) override;
  void remove(Disk& disk) override;
  void on_event(void* object, int result) override;
  void admit() override;
  bool may_sleep() override;
  std::byte* take_read_buffer() override;
  void put_read_buffer(std::byte* memory) override;
  void answer(FrontRequest& request, IoWorker& worker) override;
  void set_range_mode(Disk& disk, bool take, bool ready) override;
  void stop_admitting(Disk& disk) override;
  void fail_all() override;

 private:
  /// What this worker has of a disk's connection.
  struct Share {
    DevFront* front = nullptr;
    Disk* disk = nullptr;
    int fd = -1;
    bool readable = true;  ///< not known to be empty
    bool armed = false;    ///< a poll is out
    bool removed = false;  ///< kept only until its poll has come back
    bool admitting = true;
    bool take_ranges = false;   ///< every write takes its range
    bool ranges_ready = false;  ///< unaligned writes may begin
    std::uint64_t held = 0;     ///< bytes of WRITE payload
    sched::BioList unaligned;   ///< writes that wait for range mode
  };

  [[nodiscard]] bool has_memory(const Share& share) const;
  void collect_home();
  [[nodiscard]] Share* share_of(const Disk& disk);
  void start_write(Share& share, FrontRequest& request);
  void proceed(FrontRequest& request);
  void begin_unaligned(FrontRequest& request);
  void read_edge(FrontRequest& request, Stage stage, std::uint64_t at);
  void go_on();
  void edge_read(FrontRequest& request);
  void submit_widened(FrontRequest& request);
  void to_owner(FrontRequest& request, IoWorker& worker);
  void release_range(FrontRequest& request, IoWorker& worker);
  void release(FrontRequest& request);
  void send_buffer_home(std::byte* buffer, IoWorker& worker);
  void read_requests(Share& share);
  void take_request(Share& share, std::byte* message, std::size_t bytes);
  void take_read(Share& share, std::byte* message);
  void take_write(Share& share, std::byte* message);
  void take_fsync(Share& share, std::byte* message);
  void take_fallocate(Share& share, std::byte* message);
  void take_lseek(Share& share, std::byte* message);
  FrontRequest& begin(Share& share, const std::byte* message);
  void reply(int fd, std::uint64_t unique, int error, const void* body, std::size_t bytes);
  void arm(Share& share);

  IoWorker& worker_;
  IssuerCache issuers_;
  BufferPool buffers_;
  RequestPool requests_;
  std::byte* receive_ = nullptr;  ///< the buffer that the next request is read into
  sched::BioList ready_;          ///< requests that go on in the next admit()
  std::list<Share> shares_;       ///< addresses are stable: polls point at them
};

}  // namespace elevd::daemon
