// SPDX-License-Identifier: Apache-2.0
// UringFront: the transport over io_uring of one worker: an entry of a queue of the kernel brings a
// request, and the submission that answers it asks for the next.
//
// Owns:       the entries of its queues with their payload memory and front requests.
// Thread:     its worker's; answer() in the thread of the worker that completed the request, which
//             sends the request home if that is another: committed elsewhere, the entry would move.
// Invariants: (1) an entry is with the kernel or holds one request; (2) the payload of an entry is
//             the memory of the backing's I/O; (3) an entry's memory outlives its last completion.
// See also:   docs/spec/fuse.md section 8, docs/architecture.md "Front ends"; dev_front.hpp, which
//             still reads what never comes over a ring (FORGET, INTERRUPT).
#pragma once

#include <sys/uio.h>

#include <array>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "block_front.hpp"
#include "disk_connection.hpp"
#include "fuse_uring.hpp"

namespace elevd::daemon {

/// A worker serves the queues of the CPUs that are its index modulo the number of workers.
[[nodiscard]] std::vector<unsigned> queues_of_worker(unsigned index, unsigned workers,
                                                     unsigned cpus);

class UringFront : public BlockFront {
 public:
  explicit UringFront(IoWorker& worker);
  ~UringFront() override;

  void add(Disk& disk) override;
  void remove(Disk& disk) override;
  void on_event(void* object, int result) override;
  void admit() override;
  bool burst_is_over(Disk&) override { return to_serve_ == 0 && arrived_.empty(); }
  bool may_sleep() override;
  void answer(FrontRequest& request, IoWorker& worker) override;
  void fail_all() override;

  /// Whether `memory` of `bio` is payload of an entry here, and pinned.
  [[nodiscard]] bool is_pinned(const sched::Bio& bio, const void* memory) const;

 protected:
  Share* share_of(const Disk& disk) override;
  void send(FrontRequest& request, int error, const void* body, std::size_t bytes) override;
  void came_home(FrontRequest& request) override { finish(request); }
  void lend_memory(Share& share, FrontRequest& request) override;
  void holds_payload(Share&, FrontRequest&) override {}

 private:
  struct Entry;
  struct UringShare;
  class Memory;
  class LibfuseReply;

  static Entry& entry_of(FrontRequest& request);
  static const Entry& entry_of(const FrontRequest& request);
  void submit(Entry& entry, RingCommandCode code);
  void serve(Entry& entry);
  void serve_by_libfuse(Entry& entry);
  void finish(FrontRequest& request);
  void commit(Entry& entry, int error, std::size_t bytes);
  void lost(Entry& entry, int error);
  void erase(UringShare& share);

  std::list<UringShare> shares_;        ///< addresses are stable: entries point at them
  std::vector<Entry*> arrived_;         ///< entries with a request that was not looked at
  std::vector<Entry*> serving_;         ///< the same while they are gone through
  std::size_t to_serve_ = 0;            ///< those of them that follow the one being served
  std::unique_ptr<std::byte[]> whole_;  ///< a message put together for libfuse
};

}  // namespace elevd::daemon
