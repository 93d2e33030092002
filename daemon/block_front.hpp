// SPDX-License-Identifier: Apache-2.0
// BlockFront: what the transports have in common: what a READ, WRITE, FSYNC, FALLOCATE or LSEEK
// means, and the order of writes that must exclude each other.
//
// Owns:       nothing; a transport owns messages, payloads and front requests.
// Thread:     its worker's; answer() in the thread of the worker that completed the request.
// Invariants: (1) the payload of every WRITE starts on a page; (2) a request is sent its answer
//             once: by take() when nothing has to be done for it, else by answer().
// See also:   docs/spec/fuse.md sections 4, 11; docs/architecture.md "Front ends", rule 14.
#pragma once

#include <linux/fuse.h>

#include <cstddef>

#include "disk.hpp"
#include "front.hpp"
#include "issuer_cache.hpp"
#include "pools.hpp"

namespace elevd::daemon {

class IoWorker;

/// A request as the kernel sent it, wherever its parts lie.
struct Message {
  const fuse_in_header& header;
  const std::byte* body;  ///< of the operation
  std::byte* payload;     ///< of a WRITE, on a page

  template <class T>
  [[nodiscard]] const T& as() const {
    return *reinterpret_cast<const T*>(body);
  }
};

class BlockFront : public Front {
 public:
  explicit BlockFront(IoWorker& worker);

  void set_range_mode(Disk& disk, bool take, bool ready) override;
  void stop_admitting(Disk& disk) override;

 protected:
  /// What this worker has of a disk's connection.
  struct Share {
    Disk* disk = nullptr;
    bool admitting = true;
    bool take_ranges = false;   ///< every write takes its range
    bool ranges_ready = false;  ///< unaligned writes may begin
    sched::BioList unaligned;   ///< requests that wait for range mode
  };

  /// Null: this front does not serve that disk.
  [[nodiscard]] virtual Share* share_of(const Disk& disk) = 0;
  /// Sends the answer of `request` and takes it home, in the thread of the owner: nothing was, or
  /// is any longer, inside the queue for it. `error`: errno, 0 with a `body`.
  virtual void send(FrontRequest& request, int error, const void* body, std::size_t bytes) = 0;
  /// A READ was taken: gives it memory now, if this transport has it already.
  virtual void lend_memory(Share&, FrontRequest&) {}
  /// A WRITE was taken: `request.received` holds its payload until the answer.
  virtual void holds_payload(Share& share, FrontRequest& request) = 0;

  [[nodiscard]] static bool is_io(std::uint32_t opcode);
  /// Serves a request for which is_io() holds. `request` is free.
  void take(Share& share, FrontRequest& request, const Message& message);
  /// Takes what other workers sent home: into ready_ what has to go on, the rest to came_home().
  void collect_requests();
  /// A request that another worker completed is back with its owner.
  virtual void came_home(FrontRequest& request) = 0;
  /// Goes on with the requests in ready_: they came back to their owner in the middle of their
  /// work.
  void go_on();
  /// A step of an unaligned request is done, or a range was granted: it belongs into ready_.
  void to_owner(FrontRequest& request, IoWorker& worker);
  void release_range(FrontRequest& request, IoWorker& worker);
  /// Whether `request` has come back only to go on.
  [[nodiscard]] static bool goes_on(const FrontRequest& request) {
    return request.stage != Stage::plain;
  }

  IoWorker& worker_;
  HomeStack<FrontRequest> home_;  ///< where other workers send what belongs here
  sched::BioList ready_;          ///< requests that go on in the next admit()

 private:
  void begin(Share& share, FrontRequest& request, const Message& message);
  void take_read(Share& share, FrontRequest& request, const fuse_read_in& in);
  void take_write(Share& share, FrontRequest& request, const fuse_write_in& in, std::byte* payload);
  void take_fsync(FrontRequest& request);
  void take_fallocate(Share& share, FrontRequest& request, const fuse_fallocate_in& in);
  void take_lseek(FrontRequest& request, const fuse_lseek_in& in);
  void submit_widened(FrontRequest& request);
  void submit(FrontRequest& request, ByteRange range);
  void start_write(Share& share, FrontRequest& request);
  void proceed(FrontRequest& request);
  void begin_unaligned(FrontRequest& request);
  void begin_unaligned_punch(FrontRequest& request);
  void submit_edge(FrontRequest& request, Stage stage, sched::Op op);
  void stage_done(FrontRequest& request);
  [[nodiscard]] bool next_of_write(FrontRequest& request);
  [[nodiscard]] bool next_of_punch(FrontRequest& request);

  IssuerCache issuers_;
};

}  // namespace elevd::daemon
