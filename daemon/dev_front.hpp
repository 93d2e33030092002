// SPDX-License-Identifier: Apache-2.0
// DevFront: the transport over /dev/fuse of one worker.
//
// Owns:       front requests; borrows the worker's buffers and the disks' descriptors.
// Thread:     its worker's; answer() in the thread of the worker that completed the request.
// Invariants: (1) a READ holds a buffer from its dispatch to its answer only; (2) a descriptor is
//             read until it is empty, then polled, exclusively: one request wakes one worker.
// See also:   docs/spec/fuse.md section 7, docs/architecture.md "Front ends".
#pragma once

#include <list>

#include "block_front.hpp"

namespace elevd::daemon {

class DevFront : public BlockFront {
 public:
  explicit DevFront(IoWorker& worker);

  void add(Disk& disk) override;
  void remove(Disk& disk) override;
  void on_event(void* object, int result) override;
  void admit() override;
  bool burst_is_over(Disk& disk) override;
  bool may_sleep() override;
  void answer(FrontRequest& request, IoWorker& worker) override;
  void fail_all() override;

 protected:
  Share* share_of(const Disk& disk) override;
  void send(FrontRequest& request, int error, const void* body, std::size_t bytes) override;
  void came_home(FrontRequest& request) override { release(request); }
  void holds_payload(Share& share, FrontRequest& request) override;

 private:
  struct DevShare : Share {
    int fd = -1;
    bool readable = true;    ///< not known to be empty
    bool armed = false;      ///< a poll is out
    bool removed = false;    ///< kept only until its poll has come back
    std::uint64_t held = 0;  ///< bytes of WRITE payload
  };

  [[nodiscard]] bool has_memory(const DevShare& share) const;
  void collect_home();
  void release(FrontRequest& request);
  void send_buffer_home(std::byte* memory, IoWorker& worker);
  void read_requests(DevShare& share);
  void take_request(DevShare& share, std::byte* message, std::size_t bytes);
  static void reply(int fd, std::uint64_t unique, int error, const void* body, std::size_t bytes);
  void arm(DevShare& share);

  RequestPool requests_;
  std::byte* receive_ = nullptr;  ///< payload of the buffer that the next request is read into
  std::list<DevShare> shares_;    ///< addresses are stable: polls point at them
};

}  // namespace elevd::daemon
