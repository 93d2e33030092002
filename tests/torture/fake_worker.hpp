// SPDX-License-Identifier: Apache-2.0
// FakeWorker: the real worker loop between a front that makes up bios and a ring that makes up
// completions.
//
// Owns:       its slots (the bios it submits), its completion queue.
// Thread:     its own; wake, wake_up, completed, come_home and the last_ functions from any.
// Time:       the steady clock.
// Invariants: (1) an event that comes before or while it sleeps ends the sleep; nothing else does,
//                 but its time limit;
//             (2) a refused queue is run when the refusal is over.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "daemon/worker_loop.hpp"
#include "sched/trace.hpp"
#include "team.hpp"

namespace elevd::torture {

/// A bio and what is known about it.
struct Slot {
  sched::Bio bio;
  Disk* disk = nullptr;
  FakeWorker* home = nullptr;
  Slot* next = nullptr;  ///< in a list of free ones
  std::atomic<bool> submitted{false};
  sched::Sectors length;  ///< as submitted
  sched::Op op = sched::Op::read;
  int expected = 0;                      ///< errno it must end with, 0: see the others
  bool may_refuse = false;               ///< EAGAIN or EOPNOTSUPP are fine
  bool flushes = false;                  ///< a failed FLUSH may have failed it
  sched::Sectors untagged;               ///< not yet in a request; its owner's
  std::uint64_t begun = 0;               ///< park sequence when it was submitted; its owner's
  bool is_new = false;                   ///< has not waited and has no request; its owner's
  std::atomic<std::uint64_t> served{0};  ///< sectors that the driver saw
  std::atomic<bool> failed{false};       ///< the driver failed a part of it
  /// 0, or it surely waits for a tag: park sequence << 8 | disk << 3 | depth class.
  std::atomic<std::uint64_t> waits{0};
};

class FakeWorker : public daemon::WorkerLoop,
                   public sched::Driver,
                   public daemon::WorkerPort,
                   public sched::TraceSink {
 public:
  FakeWorker(unsigned index, Team& team);
  ~FakeWorker() override;

  // daemon::WorkerPort
  void wake() override { wake_up(); }

  /// An event for the ring: ends its sleep now or the next one.
  void wake_up();
  /// A completion for the ring. `charged`: it counted against this worker's ring.
  void completed(sched::Request& rq, int error, bool charged);
  /// A slot of this worker was answered by another one.
  void come_home(Slot& slot);
  /// So many bios are to be submitted. Before the round begins, with all slots at home.
  void set_quota(unsigned bios) { quota_.store(bios, std::memory_order_release); }
  /// Number of its sleep, 0 while it is awake.
  [[nodiscard]] std::uint64_t sleep_number() const { return sleep_.load(kTestOrder); }
  void dump();

  // sched::Driver
  unsigned budget(sched::RequestQueue& queue) override;
  bool issue(sched::Request& rq) override;

  // sched::TraceSink
  void bio_event(sched::TraceEvent event, const sched::Bio& bio, std::uint64_t n,
                 sched::Instant now) override;
  void request_event(sched::TraceEvent event, const sched::Request& rq,
                     sched::Instant now) override;
  void plug_event(sched::TraceEvent event, unsigned worker, std::uint64_t n,
                  sched::Instant now) override;

 protected:
  sched::Instant now() override;
  void reap() override;
  void admit() override;
  bool may_sleep() override;
  void answer(sched::Bio& bio) override;
  void left_closed_gate(sched::RequestQueue& queue) override;
  std::span<sched::RequestQueue* const> timed_queues() override { return team_.queues; }
  void submit(bool sleep, std::optional<sched::Instant> until) override;

 private:
  struct Completion {
    sched::Request* rq;
    int error;
    bool charged;
  };
  struct Delayed {
    Completion completion;
    unsigned turns;
  };
  struct Refusal {
    sched::RequestQueue* queue;
    unsigned turns;  ///< 0: until a request of this ring is reaped
  };

  [[nodiscard]] const Mood& mood() const { return team_.moods[team_.mood.load(kTestOrder)]; }
  void refuse(sched::RequestQueue& queue, unsigned turns);
  void reap_refusals(bool reaped);
  void note_served(const sched::Request& rq, int error);

  void begin_round();
  [[nodiscard]] Slot* take_slot();
  void fill(Slot& slot);
  [[nodiscard]] bool choose_place(Slot& slot);
  void choose_kind(Slot& slot);
  void submit_slot(Slot& slot);
  void note_waiting(Slot& slot);
  void note_class(Slot& slot);
  void follow_classes();
  void check_not_overtaking(const Slot& slot);
  void placed(Slot& slot, sched::Sectors sectors);

  Team& team_;
  Random random_;

  // The front.
  std::vector<std::unique_ptr<Slot>> slots_;
  Slot* free_ = nullptr;
  std::atomic<Slot*> home_{nullptr};
  std::atomic<unsigned> quota_{0};
  std::uint32_t round_ = 0;
  struct Run {
    std::uint64_t next_block = 0;
    sched::Op op = sched::Op::read;
    sched::BioFlags flags = 0;
  };
  unsigned waiting_ = 0;         ///< slots that are noted as waiting
  std::vector<Run> sequential_;  ///< per disk: what a neighbour of the last bio looks like
  /// Even: no bio of this worker can get its tag now (between admit and reap).
  std::atomic<std::uint64_t> phase_{1};

  // The ring.
  unsigned in_ring_ = 0;
  std::vector<Delayed> delayed_;
  std::vector<Refusal> refusals_;
  std::vector<Completion> reaped_;
  std::mutex mutex_;
  std::condition_variable event_;
  std::vector<Completion> completions_;  ///< under mutex_
  bool event_pending_ = false;           ///< under mutex_
  std::atomic<std::uint64_t> sleep_{0};
  std::uint64_t sleeps_ = 0;
};

/// The slot around a bio that was submitted.
[[nodiscard]] Slot& slot_of(const sched::Bio& root);

}  // namespace elevd::torture
