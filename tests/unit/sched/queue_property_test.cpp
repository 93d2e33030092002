// SPDX-License-Identifier: Apache-2.0
// The whole of sched against a simple model, over random bios, limits, refusals and completions,
// by several workers whose steps are mixed at random. Replay: ELEVD_SEED=S sched_property.
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench.hpp"
#include "fifo_elevator.hpp"
#include "random.hpp"
#include "sched/bfq.hpp"
#include "sched/kyber.hpp"
#include "sched/mq_deadline.hpp"

using namespace elevd::sched;
using namespace elevd::sched::literals;
using elevd::sched::test::Bench;
using elevd::sched::test::describe;
using elevd::sched::test::FifoElevator;
using elevd::sched::test::Random;
using elevd::sched::test::seeds;
using elevd::sched::test::TestBio;

namespace {

constexpr int kFlushError = ENOSPC;

/// What is known of one submitted bio.
struct Expected {
  Sector origin;
  Sectors length;
  Sector placed;     ///< up to here it is in requests
  Sectors executed;  ///< payload the device accepted
  int first_error = 0;
  bool may_see_flush_error = false;
  bool admitted = false;
};

struct Sums {
  std::uint64_t ios = 0, merges = 0;
};

/// What the disk has: no elevator, the one of the tests, or one of the real ones.
using MakeElevator = std::function<std::unique_ptr<Elevator>()>;

class Run {
 public:
  Run(std::uint64_t seed, bool with_elevator, const MakeElevator& real = {}) : random_(seed) {
    Bench::Options options;
    options.workers = static_cast<unsigned>(1 + random_(4));
    options.depth =
        static_cast<std::uint32_t>(random_.one_in(4) ? 1 + random_(4) : 4 + random_(60));
    options.limits = random_limits();
    options.complete_inline = random_.one_in(8);
    if (with_elevator) {
      fifo_.limits = options.limits;
      fifo_.merges = !random_.one_in(3);
      if (random_.one_in(2)) fifo_.async_shallow = static_cast<std::uint32_t>(1 + random_(8));
      if (random_.one_in(4)) fifo_.most_out = static_cast<unsigned>(1 + random_(4));
      options.elevator = [this] { return std::make_unique<FifoElevator>(fifo_); };
      if (real) options.elevator = real;
    }
    with_elevator_ = with_elevator;
    bench_.emplace(options);
    bench_->recorder.on_bio = [this](TraceEvent e, const Bio& b, std::uint64_t) { on_bio(e, b); };
    bench_->recorder.on_request = [this](TraceEvent e, const Request& rq) { on_request(e, rq); };
    bench_->on_issue = [this](const Request& rq) { on_issue(rq); };
  }

  void steps(unsigned n) {
    for (unsigned step = 0; step < n && trouble.empty(); ++step) {
      one_step();
      look();
      if (!trouble.empty()) trouble += " (step " + std::to_string(step) + ")";
    }
  }

  /// Everything is completed and answered, then the sums must fit.
  void finish() {
    fifo_.hold = false;
    bench_->queue().run(bench_->worker());
    bench_->drain();
    if (!trouble.empty()) return;
    RequestQueue& queue = bench_->queue();
    expect(queue.inside() == 0, "somebody is still inside");
    expect(queue.idle(), "the queue is not idle");
    expect(queue.allocation_tags().bitmap().busy() == 0, "a tag leaked");
    expect(queue.hardware_tags().bitmap().busy() == 0, "a hardware tag leaked");
    expect(queue.allocation_tags().waiting() == 0, "somebody waits for a tag");
    for (const TestBio& bio : bench_->bios) look_at(bio);
    look_at_sums();
  }

  std::string trouble;

 private:
  void expect(bool holds, const std::string& what) {
    if (!holds && trouble.empty()) trouble = what;
  }

  Limits random_limits() {
    Limits limits;
    limits.max_sectors = Sectors{8 * (1 + random_(40))};
    if (random_.one_in(4)) limits.max_segments = static_cast<std::uint32_t>(1 + random_(8));
    if (random_.one_in(4)) limits.chunk = Sectors{64};
    if (random_.one_in(3)) limits.physical_block = Bytes{4096};
    limits.max_discard = Sectors{8 * (1 + random_(100))};
    limits.max_write_zeroes = Sectors{8 * (1 + random_(100))};
    limits.write_back = !random_.one_in(3);
    limits.fua = random_.one_in(2);
    return limits;
  }

  // --- Steps ---

  void one_step() {
    const auto w = static_cast<unsigned>(random_(bench_->workers()));
    Worker& worker = bench_->worker(w);
    switch (random_(16)) {
      case 0:
      case 1:
      case 2:
        submit_some(w);
        break;
      case 3:
      case 4:
        worker.flush_plug(false);
        break;
      case 5:
      case 6:
      case 7:
        complete_some(w);
        break;
      case 8:
        bench_->deliver(w);
        break;
      case 9:
        worker.resume_woken();
        break;
      case 10:
        worker.run_queues();
        break;
      case 11:
        bench_->answer(w);
        break;
      case 12:
        bench_->turn(w);
        break;
      case 13:
        change_the_device(w);
        break;
      case 14:
        bench_->advance(Duration{static_cast<std::int64_t>(random_(3'000'000'000))});
        break;
      default:
        if (random_.one_in(6)) change_the_queue();
    }
  }

  std::string random_bio() {
    const std::uint64_t kind = random_(40);
    std::string text = kind < 14 ? "R" : kind < 32 ? "W" : kind < 35 ? "D" : kind < 37 ? "Z" : "F";
    if (text == "F") return text;
    // Mostly beside the one before, so that there is something to merge.
    if (random_.one_in(3)) next_place_ = random_(500) * 8;
    const std::uint64_t length = random_.one_in(5) ? 8 * (1 + random_(120)) : 8 * (1 + random_(3));
    std::uint64_t start = next_place_;
    if (random_.one_in(4) && start >= length) {
      start -= length;
    } else {
      next_place_ += length;
    }
    text += std::to_string(random_.one_in(60) ? start + 1 : start) + "+" + std::to_string(length);
    if (random_.one_in(12)) text += "/fua";
    if (random_.one_in(20)) text += "/preflush";
    if (random_.one_in(12)) text += "/nomerge";
    if (random_.one_in(10)) text += "/nowait";
    if (random_.one_in(3)) text += "/sync";
    if (random_.one_in(30)) text += "/head";
    if (random_.one_in(15)) text += "/IDLE";
    return text;
  }

  void submit_some(unsigned w) {
    if (random_.one_in(20)) bench_->group = static_cast<GroupId>(random_(Bench::kGroups));
    for (std::uint64_t n = 1 + random_(6); n > 0; --n) bench_->submit(random_bio(), w);
    if (random_.one_in(2)) bench_->flush_plug(w);
  }

  void complete_some(unsigned w) {
    for (std::uint64_t n = random_(6); n > 0 && !bench_->held.empty(); --n) {
      const std::size_t index = random_(bench_->held.size());
      int error = 0;
      if (random_.one_in(15)) {
        const Request& rq = *bench_->held[index];
        error = rq.op == Op::flush ? kFlushError : EIO;
        if (rq.op != Op::flush && random_.one_in(2)) {
          // One bio of it failed by itself.
          rq.last->fail(EBADF);
          note_error(*rq.last, EBADF);
          error = 0;
        }
        for (const Bio* bio = rq.first; bio != nullptr && error != 0; bio = bio->next) {
          note_error(*bio, error);
        }
        if (rq.op == Op::flush) flush_failed_ = flush_failed_ || error != 0;
      }
      bench_->complete_at(index, error, w);
    }
  }

  void change_the_device(unsigned w) {
    switch (random_(3)) {
      case 0:
        bench_->driver(w).refuse = static_cast<unsigned>(random_(4));
        break;
      case 1:
        bench_->driver(w).slots = static_cast<unsigned>(random_(6));
        break;
      default:
        bench_->lift_refusals();
    }
  }

  /// Tunables: some at once, some by closing every gate and waiting.
  void change_the_queue() {
    RequestQueue& queue = bench_->queue();
    queue.set_nomerges(static_cast<unsigned>(random_(3)));
    if (!random_.one_in(4)) return;
    for (unsigned w = 0; w < bench_->workers(); ++w) queue.close_gate(bench_->worker(w));
    for (unsigned n = 0; n < 3; ++n) submit_some(0);
    fifo_.hold = false;
    queue.run(bench_->worker());
    bench_->drain();
    expect(queue.inside() == 0, "a closed gate does not drain");
    expect(queue.idle(), "not idle behind a closed gate");
    if (!trouble.empty()) return;
    Limits limits = random_limits();
    fifo_.limits = limits;
    queue.set_limits(limits);
    const std::uint32_t most = std::min(queue.max_requests(), 64U);
    queue.set_nr_requests(static_cast<std::uint32_t>(1 + random_(most)));
    for (unsigned w = 0; w < bench_->workers(); ++w) queue.open_gate(bench_->worker(w));
  }

  // --- What is seen ---

  Expected& of(const Bio& bio) { return expected_[&bio.root()]; }

  void note_error(const Bio& bio, int error) {
    Expected& one = of(bio);
    if (one.first_error == 0) one.first_error = error;
  }

  /// A bio, or a piece of it, is in a request now: pieces come in ascending order, without gaps.
  void note_placed(const Bio& piece) {
    Expected& one = of(piece);
    one.admitted = true;
    expect(piece.start == one.placed, "pieces out of order: " + describe(piece));
    one.placed = piece.end();
  }

  void on_bio(TraceEvent event, const Bio& bio) {
    switch (event) {
      case TraceEvent::queued: {
        Expected& one = expected_[&bio];
        one.origin = one.placed = bio.start;
        one.length = bio.length;
        one.may_see_flush_error =
            bio.op == Op::flush || (bio.flags & (kBioFua | kBioPreflush)) != 0;
        break;
      }
      case TraceEvent::back_merged:
      case TraceEvent::front_merged:
        note_placed(bio);
        ++sums_[stat_group(bio.op)].merges;
        break;
      default:
        break;
    }
  }

  void on_request(TraceEvent event, const Request& rq) {
    if (event == TraceEvent::got_tag) {
      note_placed(*rq.first);
      ++sums_[stat_group(rq.op)].ios;
    }
    if (event == TraceEvent::request_merged) {
      --sums_[stat_group(rq.op)].ios;
      ++sums_[stat_group(rq.op)].merges;
    }
  }

  /// The device accepts a request: its bios must cover it, in order, once, within the limits.
  void on_issue(const Request& rq) {
    if (rq.op == Op::flush) {
      ++flushes_;
      return;
    }
    Sector at = rq.start;
    std::uint32_t parts = 0;
    for (const Bio* bio = rq.first; bio != nullptr; bio = bio->next) {
      expect(bio->start == at, "a request with a gap: " + describe(rq));
      expect(bio->op == rq.op && bio->priority == rq.priority, "a mixed request");
      at = bio->end();
      of(*bio).executed += bio->length;
      ++parts;
    }
    expect(at == rq.end(), "bios do not cover " + describe(rq));
    const Limits limits = bench_->queue().limits();
    expect(rq.length <= max_request_sectors(limits, rq.op, rq.start), "too long: " + describe(rq));
    expect(parts == 1 || rq.op != Op::write_zeroes, "write zeroes were merged");
    expect(rq.tag >= 0, "no hardware tag: " + describe(rq));
    expect((rq.internal_tag >= 0) == with_elevator_, "scheduler tag: " + describe(rq));
  }

  /// What holds at any time.
  void look() {
    RequestQueue& queue = bench_->queue();
    const Stats stats = bench_->stats();
    std::set<std::int32_t> tags;
    std::uint64_t at_device = 0;
    for (const Request* rq : bench_->held) {
      ++at_device;
      // Without a scheduler a FLUSH only borrows its tag.
      if (rq->op != Op::flush || with_elevator_) {
        expect(tags.insert(rq->tag).second, "a tag is used twice");
      }
    }
    expect(stats.at_driver[0] + stats.at_driver[1] == at_device, "at_driver is miscounted");
    expect(tags.size() <= queue.hardware_tags().depth(), "more at the device than it has tags");
    expect(stats.in_flight == queue.allocation_tags().bitmap().busy(), "in flight and tags differ");
    expect(queue.hardware_tags().bitmap().busy() <= queue.hardware_tags().depth(), "depth");
    for (unsigned w = 0; w < bench_->workers(); ++w) {
      expect(bench_->worker(w).plug.count <= kPlugRequests, "a plug is too full");
    }
  }

  void look_at(const TestBio& bio) {
    const Expected& one = expected_[&bio];
    const std::string name = bio.name + ": ";
    expect(bio.answers == 1, name + "answered " + std::to_string(bio.answers) + " times");
    if (!one.admitted) {
      const bool empty_flush = bio.op == Op::flush;
      const bool unaligned = one.origin.value % 8 != 0;
      expect(empty_flush || unaligned || bio.answer == EAGAIN || bio.answer == EIO,
             name + "never placed, answered " + std::to_string(bio.answer));
      return;
    }
    const bool refused_flush = one.may_see_flush_error && bio.answer == kFlushError;
    if (bio.answer == EAGAIN) {
      expect((bio.flags & kBioNoWait) != 0, name + "EAGAIN");
      return;
    }
    if (refused_flush) {
      expect(flush_failed_, name + "a flush error from nowhere");
      expect(one.executed <= one.length, name + "executed more than once");
      return;
    }
    expect(bio.answer == one.first_error, name + "answered " + std::to_string(bio.answer) +
                                              " for " + std::to_string(one.first_error));
    if (bio.op != Op::flush && !one.may_see_flush_error) {
      expect(one.executed == one.length, name + "executed " + std::to_string(one.executed.value));
    }
    if (one.may_see_flush_error && bio.answer == 0) {
      expect(one.executed == one.length, name + "executed " + std::to_string(one.executed.value));
    }
  }

  void look_at_sums() {
    const Stats stats = bench_->stats();
    std::map<StatGroup, std::uint64_t> sectors;
    for (const auto& [bio, one] : expected_)
      sectors[stat_group(bio->op)] += one.placed.value - one.origin.value;
    for (const StatGroup group : {StatGroup::read, StatGroup::write, StatGroup::discard}) {
      const Stats::Group& shown = stats.groups[static_cast<unsigned>(group)];
      const std::string name = "group " + std::to_string(static_cast<unsigned>(group)) + ": ";
      expect(shown.ios == sums_[group].ios, name + "ios");
      expect(shown.merges == sums_[group].merges, name + "merges");
      expect(shown.sectors == sectors[group], name + "sectors");
    }
    const Stats::Group& flushes = stats.groups[static_cast<unsigned>(StatGroup::flush)];
    expect(flushes.ios == flushes_, "flushes");
    expect(stats.in_flight == 0, "in flight at the end");
    expect(stats.at_driver[0] + stats.at_driver[1] == 0, "at the driver at the end");
  }

  Random random_;
  FifoElevator::Options fifo_;
  bool with_elevator_ = false;
  std::map<const Bio*, Expected> expected_;
  std::map<StatGroup, Sums> sums_;
  std::uint64_t flushes_ = 0;
  std::uint64_t next_place_ = 0;
  bool flush_failed_ = false;
  std::optional<Bench> bench_;  ///< last: its queues use what is above
};

}  // namespace

TEST_SUITE("queue property") {
  TEST_CASE("every bio is answered once, its bytes are moved once, nothing leaks: none") {
    for (const std::uint64_t seed : seeds(600)) {
      CAPTURE(seed);
      Run run(seed, false);
      run.steps(400);
      run.finish();
      CHECK(run.trouble == "");
    }
  }

  /// The real ones: every one that is registered belongs here.
  TEST_CASE("every bio is answered once, its bytes are moved once, nothing leaks: kyber") {
    for (const std::uint64_t seed : seeds(300)) {
      CAPTURE(seed);
      Run run(seed, true, [] { return std::make_unique<Kyber>(); });
      run.steps(400);
      run.finish();
      CHECK(run.trouble == "");
    }
  }

  TEST_CASE("every bio is answered once, its bytes are moved once, nothing leaks: mq-deadline") {
    for (const std::uint64_t seed : seeds(300)) {
      CAPTURE(seed);
      Run run(seed, true, [] { return std::make_unique<MqDeadline>(); });
      run.steps(400);
      run.finish();
      CHECK(run.trouble == "");
    }
  }

  TEST_CASE("every bio is answered once, its bytes are moved once, nothing leaks: an elevator") {
    for (const std::uint64_t seed : seeds(600)) {
      CAPTURE(seed);
      Run run(seed, true);
      run.steps(400);
      run.finish();
      CHECK(run.trouble == "");
    }
  }

  TEST_CASE("every bio is answered once, its bytes are moved once, nothing leaks: bfq") {
    for (const std::uint64_t seed : seeds(300)) {
      CAPTURE(seed);
      Run run(seed, true, [] { return std::unique_ptr<Elevator>(std::make_unique<Bfq>()); });
      run.steps(400);
      run.finish();
      CHECK(run.trouble == "");
    }
  }
}
