// SPDX-License-Identifier: Apache-2.0
// Bench: a RequestQueue (or several) with workers, a fake device and a clock, driven by one thread.
//
// Owns:       the bios it submits, workers, queues; every bio is answered before it goes.
// Thread:     one. Workers are stepped by name, so every interleaving can be written down.
// Time:       advance() only.
// Notation:   a bio is OP START [+LENGTH] [/WORD...] with OP one of R W F D Z (flush, discard,
// write
//             zeroes), sectors, default length 8; words: fua preflush nomerge sync nowait head
//             single, a priority class RT BE IDLE with an optional level, iN for issuer N, and qN
//             for queue N. An event is its letter, then the same notation: "M W1008+8", "U3".
// See also:   docs/spec/plug-and-merge.md (letters).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sched/elevator.hpp"
#include "sched/request_queue.hpp"
#include "sched/trace.hpp"
#include "sched/worker.hpp"

namespace elevd::sched {

/// Holds the elevator lock, as another worker would.
class QueueTest {
 public:
  static Lock& elevator_lock(RequestQueue& queue) { return queue.lock_; }
};

}  // namespace elevd::sched

namespace elevd::sched::test {

/// A bio of the bench, and what became of it.
struct TestBio : Bio {
  std::string name;
  unsigned answers = 0;  ///< must end as 1
  int answer = -1;       ///< errno it was answered with
  unsigned answered_by = 0;
};

[[nodiscard]] std::string describe(const Bio& bio);
[[nodiscard]] std::string describe(const Request& rq);
/// The same without a length that is 8, as the worked examples of docs/spec write it.
[[nodiscard]] std::string describe_briefly(const Request& rq);

class Bench;

/// The device as one worker sees it. What it accepts is held until the test completes it.
class FakeDriver : public Driver {
 public:
  explicit FakeDriver(Bench& bench) : bench_(bench) {}
  unsigned budget(RequestQueue& queue) override;
  bool issue(Request& rq) override;
  bool burst_is_over(RequestQueue&) override {
    ++asked_for_end;
    return alone;
  }

  unsigned worker_index = 0;
  unsigned slots = 1U << 20U;  ///< most requests of this worker at the device
  unsigned refuse = 0;         ///< so many issues are refused next
  unsigned used = 0;
  bool alone = false;  ///< a burst ends with its first bio
  unsigned asked_for_end = 0;

  /// Runs, in the next queue step of its worker, the queues it had no room for.
  void run_owed();

 private:
  void owe(RequestQueue& queue);

  Bench& bench_;
  std::vector<RequestQueue*> owed_;  ///< budget() said 0 or issue() refused
};

/// Records every event as a string.
class Recorder : public TraceSink {
 public:
  void bio_event(TraceEvent event, const Bio& bio, std::uint64_t n, Instant now) override;
  void request_event(TraceEvent event, const Request& rq, Instant now) override;
  void plug_event(TraceEvent event, unsigned worker, std::uint64_t n, Instant now) override;

  std::vector<std::string> events;
  /// Called besides, by the property tests.
  std::function<void(TraceEvent, const Bio&, std::uint64_t)> on_bio;
  std::function<void(TraceEvent, const Request&)> on_request;
};

class Bench {
 public:
  struct Options {
    unsigned workers = 1;
    unsigned queues = 1;
    std::uint32_t depth = 128;
    Limits limits = {};
    std::function<std::unique_ptr<Elevator>()> elevator = {};  ///< null: none
    bool complete_inline = false;
  };
  Bench() : Bench(Options{}) {}
  explicit Bench(Options options);
  ~Bench();  ///< drains
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  static constexpr GroupId kGroups = 5;  ///< there are so many, the root included
  GroupId group = kRootGroup;            ///< of bios submitted from now on

  // --- Submitting ---
  /// Submits every bio of `text` as part of a burst that goes on; the issuer is the
  /// worker's number plus 1.
  TestBio& submit(std::string_view text, unsigned worker = 0);
  /// The same, and the end of the burst.
  TestBio& burst(std::string_view text, unsigned worker = 0);
  /// The same, each bio a burst of its own.
  void each(std::string_view text, unsigned worker = 0);
  /// The same while the elevator lock is held by somebody who dispatches next: what is inserted
  /// waits. REQUIRES: a scheduler, tags for all of them.
  void each_contended(std::string_view text, unsigned worker = 0);
  /// Ends the burst of a worker.
  void flush_plug(unsigned worker = 0) { this->worker(worker).flush_plug(false); }

  // --- The device ---
  /// Completes the request held longest; `error` as the device would say it.
  void complete(int error = 0, unsigned worker = 0);
  /// Completes the held request at `index`.
  void complete_at(std::size_t index, int error, unsigned worker);
  /// Completes the held request that is shown as `what`.
  void complete_request(std::string_view what, int error = 0, unsigned worker = 0);
  /// Completes everything held now (not what that brings).
  void complete_all(int error = 0, unsigned worker = 0);
  /// settle(), the request held longest completes, settle().
  void release_one();
  /// The same until nothing is held.
  void release_all();
  /// Gives room back and runs the queues that wait for it.
  void lift_refusals();

  // --- The loop ---
  /// Takes the mail of a worker into its lists.
  void deliver(unsigned worker);
  /// Answers what a worker has finished.
  void answer(unsigned worker);
  /// One turn of the loop: mail, woken bios, end of burst, queue runs, answers.
  void turn(unsigned worker);
  /// Turns of every worker until nothing happens by itself any more.
  void settle();
  /// settle() and complete_all(), and time passes for elevators that wait, until nothing is left.
  void drain();

  void advance(Duration by);
  /// A step of the worked examples: `;` 10 ms pass, `!` release_one(), `*` and `|` release_all(),
  /// `quiesce`, `unquiesce`. Any other word does nothing.
  void step(std::string_view word);
  [[nodiscard]] Instant now() const { return now_; }

  // --- Looking ---
  /// The events whose letter is in `letters`, joined by ", "; recorded since clear().
  [[nodiscard]] std::string events(std::string_view letters) const;
  [[nodiscard]] std::size_t count(char letter) const;
  /// What was issued since clear(), joined by " ".
  [[nodiscard]] std::string issued() const;
  /// What the device holds, joined by " ".
  [[nodiscard]] std::string held_text() const;
  /// What was answered since clear(), in order: NAME or NAME=ERRNO, joined by " ".
  [[nodiscard]] std::string answered() const;
  void clear();

  [[nodiscard]] Worker& worker(unsigned index = 0) { return *workers_[index]; }
  [[nodiscard]] FakeDriver& driver(unsigned index = 0) { return *drivers_[index]; }
  [[nodiscard]] RequestQueue& queue(unsigned index = 0) { return *queues_[index]; }
  [[nodiscard]] Stats stats() { return queue().stats(now_); }
  [[nodiscard]] unsigned workers() const { return static_cast<unsigned>(workers_.size()); }

  Recorder recorder;
  std::vector<Request*> held;  ///< at the device, in order of issue
  std::deque<TestBio> bios;
  std::vector<std::string> issued_log;
  std::vector<std::string> answered_log;
  /// Called for each request the device accepts.
  std::function<void(const Request&)> on_issue;
  bool complete_inline = false;

 private:
  TestBio& submit_one(std::string_view word, unsigned worker);
  /// Time goes on to when an elevator wants to be asked. False: nothing was issued then.
  bool wait_for_timer();
  void finish_at_device(Request& rq, int error, unsigned worker);

  std::vector<Worker*> peers_;
  std::vector<std::unique_ptr<FakeDriver>> drivers_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Groups groups_;
  std::vector<std::unique_ptr<RequestQueue>> queues_;
  Instant now_{1'000'000'000};
  friend class FakeDriver;
};

/// `count` bios of `op`, each `length` sectors, the first at `start`, the next `step` further on.
[[nodiscard]] std::string series(char op, std::uint64_t start, std::uint64_t length,
                                 std::int64_t step, unsigned count);

/// "A B C" joined of whatever has a string form.
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view between);

}  // namespace elevd::sched::test
