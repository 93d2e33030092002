// SPDX-License-Identifier: Apache-2.0
// dispatch: nanoseconds a request takes of the core: gate, merge look-up, tag, plug, insertion, run
// queue, hardware tag, completion, answer. A closed loop of reads of 4 KiB at random places that
// nobody can join, with 1, 16, 256 or 2048 outstanding, in bursts of 16, on a device that completes
// what it has in the order it came: for none, which gives it all of them, and for mq-deadline with
// 16 hardware tags a thread, which keeps the rest. With 1 and 2 threads; for 2 it is the time of
// the machine, not of a thread.
//
// usage: dispatch [--smoke] [ROUNDS]. Schedulers take turns; medians. docs/architecture.md "The way
// of one write".
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "measure.hpp"
#include "sched/mq_deadline.hpp"
#include "sched/request_queue.hpp"

namespace {

using namespace elevd;
using Clock = std::chrono::steady_clock;

constexpr unsigned kBurst = 16;
constexpr std::array<unsigned, 4> kOutstanding = {1, 16, 256, 2048};

/// A worker with its share of the bios, and its side of the device.
class Lane : public sched::Driver {
 public:
  Lane(unsigned index, std::span<sched::Worker* const> peers, sched::RequestQueue& queue,
       const std::vector<std::uint64_t>& places, unsigned bios)
      : worker(index, peers, *this), queue_(queue), places_(places), at_(index * 4099U) {
    for (unsigned n = 0; n < bios; ++n) idle_.push_back(&bios_.emplace_back());
  }

  void turn(bool refill) {
    worker.now = worker.now + sched::Duration{1000};
    for (unsigned n = 0; n < kBurst && first_ != held_.size(); ++n) {
      queue_.complete(worker, *held_[first_++], 0);
    }
    if (first_ == held_.size()) {
      held_.clear();
      first_ = 0;
    }
    for (sched::MailNode* node = worker.mailbox.take(); node != nullptr;) {
      sched::MailNode* const next = node->next;
      worker.take_mail(*node);
      node = next;
    }
    worker.resume_woken();
    answer();
    if (refill) submit();
    worker.flush_plug(false);
    worker.run_queues();
    worker.to_wake = 0;  // nobody sleeps
  }

  sched::Worker worker;
  alignas(64) std::atomic<std::uint64_t> answered{0};
  std::atomic<unsigned> outstanding{0};

 private:
  void answer() {
    std::uint64_t count = 0;
    while (!worker.finished.empty()) {
      sched::Bio& bio = worker.finished.front();
      worker.finished.pop_front();
      if (bio.owner != worker.index()) {
        bio.mail.kind = sched::MailKind::finished_bio;
        worker.post(bio.owner, bio.mail);
        continue;
      }
      static_cast<void>(queue_.leave(worker));
      idle_.push_back(&bio);
      ++count;
    }
    if (count == 0) return;
    answered.store(answered.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
    outstanding.store(static_cast<unsigned>(bios_.size() - idle_.size()));
  }

  /// A whole burst or nothing, as a program that submits in batches does.
  void submit() {
    if (idle_.size() < std::min<std::size_t>(kBurst, bios_.size())) return;
    for (unsigned n = 0; n < kBurst && !idle_.empty(); ++n) {
      sched::Bio& bio = *idle_.back();
      idle_.pop_back();
      bio.op = sched::Op::read;
      bio.flags = sched::kBioSync;
      bio.start = sched::Sector{places_[at_++ % places_.size()]};
      bio.length = sched::Sectors{8};
      queue_.submit(worker, bio);
    }
    outstanding.store(static_cast<unsigned>(bios_.size() - idle_.size()));
  }

  unsigned budget(sched::RequestQueue&) override { return 1U << 20U; }
  bool issue(sched::Request& rq) override {
    held_.push_back(&rq);
    return true;
  }

  sched::RequestQueue& queue_;
  const std::vector<std::uint64_t>& places_;
  std::size_t at_;
  std::deque<sched::Bio> bios_;
  std::vector<sched::Bio*> idle_;
  std::vector<sched::Request*> held_;  ///< at the device from first_ on, oldest first
  std::size_t first_ = 0;
};

struct Case {
  bool deadline = false;
  unsigned outstanding = 1;
  unsigned threads = 1;

  [[nodiscard]] std::string name() const {
    return std::string(deadline ? "mq_deadline" : "none") + "_" + std::to_string(outstanding) +
           "_" + std::to_string(threads);
  }
};

/// Nanoseconds a request, and 0 if something was lost.
double run(const Case& what, const std::vector<std::uint64_t>& places,
           std::chrono::milliseconds duration) {
  const unsigned at_device =
      what.deadline ? std::min(kBurst * what.threads, what.outstanding) : what.outstanding;
  sched::RequestQueue queue(
      {.limits = {}, .queue_depth = std::max(at_device, 1U), .workers = what.threads});
  if (what.deadline) {
    queue.set_elevator(std::make_unique<sched::MqDeadline>());
    queue.set_nr_requests(std::max(what.outstanding, sched::kMinRequests));
  }
  std::vector<sched::Worker*> peers(what.threads);
  std::vector<std::unique_ptr<Lane>> lanes;
  for (unsigned t = 0; t < what.threads; ++t) {
    const unsigned share = what.outstanding / what.threads + (t < what.outstanding % what.threads);
    lanes.push_back(std::make_unique<Lane>(t, peers, queue, places, share));
    peers[t] = &lanes.back()->worker;
  }
  std::atomic<bool> refill{true};
  std::atomic<unsigned> refilling{what.threads};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (const auto& lane : lanes) {
    threads.emplace_back([&refill, &refilling, &over, &lane = *lane] {
      for (bool more = true; !over.load(std::memory_order_relaxed);) {
        if (more && !refill.load()) {
          more = false;
          refilling.fetch_sub(1);
        }
        lane.turn(more);
        if (lane.outstanding.load(std::memory_order_relaxed) == 0) std::this_thread::yield();
      }
    });
  }
  const auto answered = [&lanes] {
    std::uint64_t sum = 0;
    for (const auto& lane : lanes) sum += lane->answered.load(std::memory_order_relaxed);
    return sum;
  };
  std::this_thread::sleep_for(duration / 5);
  const std::uint64_t before = answered();
  const Clock::time_point begin = Clock::now();
  std::this_thread::sleep_for(duration);
  const std::uint64_t after = answered();
  const auto took = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
  refill.store(false);
  const Clock::time_point give_up = Clock::now() + std::chrono::seconds(10);
  // Only when nobody submits any more is nothing inside for good.
  const auto busy = [&queue, &refilling] { return refilling.load() != 0 || queue.inside() != 0; };
  while (busy() && Clock::now() < give_up) std::this_thread::yield();
  const bool drained = !busy();
  over.store(true);
  for (std::thread& thread : threads) thread.join();
  if (!drained || after == before) {
    std::fprintf(stderr, "dispatch: %s: %s\n", what.name().c_str(),
                 drained ? "nothing was done" : "something is lost");
    std::_Exit(1);  // what is lost cannot be taken apart
  }
  return took / static_cast<double>(after - before);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Options options = bench::parse(argc, argv);
  const std::vector<std::uint64_t> places = bench::random_places();
  std::printf("ns a request through the core, reads of 4 KiB at random places, bursts of %u\n",
              kBurst);
  std::printf("%8s %12s %12s %12s\n", "threads", "outstanding", "none", "mq-deadline");
  std::string line = "dispatch";
  std::array<double, kOutstanding.size()> alone{};
  for (const unsigned threads : {1U, 2U}) {
    for (std::size_t size = 0; size < kOutstanding.size(); ++size) {
      const std::array<Case, 2> cases{Case{false, kOutstanding[size], threads},
                                      Case{true, kOutstanding[size], threads}};
      std::array<std::vector<double>, 2> taken;
      for (unsigned round = 0; round < options.rounds; ++round) {
        for (unsigned c = 0; c < 2; ++c)
          taken[c].push_back(run(cases[c], places, options.duration));
      }
      const std::array<double, 2> ns{bench::median(taken[0]), bench::median(taken[1])};
      std::printf("%8u %12u %12.1f %12.1f\n", threads, kOutstanding[size], ns[0], ns[1]);
      std::fflush(stdout);
      if (threads == 1) alone[size] = ns[1];
      for (unsigned c = 0; c < 2; ++c) {
        std::array<char, 64> text{};
        std::snprintf(text.data(), text.size(), " %s=%.1f", cases[c].name().c_str(), ns[c]);
        line += text.data();
      }
    }
  }
  std::printf(
      "%s growth_256_to_2048=%.2f aim_none=135 aim_mq_deadline_256=300 aim_growth=1.50 rounds=%u\n",
      line.c_str(), alone[3] / alone[2], options.rounds);
  return 0;
}
