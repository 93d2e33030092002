// SPDX-License-Identifier: Apache-2.0
#include "closed_loop.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <thread>
#include <vector>

#include "measure.hpp"

namespace elevd::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// A worker with its share of the bios, and its side of the device.
class Lane : public sched::Driver {
 public:
  Lane(unsigned index, std::span<sched::Worker* const> peers, sched::RequestQueue& queue,
       const ClosedLoop& what, std::span<const sched::GroupId> groups, unsigned bios)
      : worker(index, peers, *this),
        queue_(queue),
        what_(what),
        burst_(std::min(what.burst, bios)),
        at_(index * 4099U) {
    for (unsigned n = 0; n < bios; ++n) {
      sched::Bio& bio = bios_.emplace_back();
      const unsigned issuer = n % what.issuers;
      bio.issuer = index * what.issuers + issuer + 1;
      if (what.groups != 0) bio.group = groups[issuer % what.groups];
      idle_.push_back(&bio);
    }
  }

  void turn(bool refill) {
    worker.now = {Clock::now().time_since_epoch() / std::chrono::nanoseconds(1)};
    for (unsigned n = 0; n < what_.burst && first_ != held_.size(); ++n) {
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
    worker.flush_plug(false);
    answer();
    // Whole bursts, as a program that submits in batches does.
    while (refill && burst_ != 0 && idle_.size() >= burst_) submit();
    if (worker.wake_at && *worker.wake_at <= worker.now) {
      worker.wake_at.reset();
      queue_.run_later(worker);
    }
    worker.run_queues();
    worker.to_wake = 0;  // nobody sleeps
  }

  sched::Worker worker;
  alignas(64) std::atomic<std::uint64_t> answered{0};
  std::atomic<unsigned> outstanding{0};
  std::atomic<std::uint64_t>* waited = nullptr;  ///< lock_wait_ns of its thread

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

  void submit() {
    static const std::vector<std::uint64_t> places = random_places();
    for (unsigned n = 0; n < burst_; ++n) {
      sched::Bio& bio = *idle_.back();
      idle_.pop_back();
      bio.op = what_.writes && (at_ & 1U) != 0 ? sched::Op::write : sched::Op::read;
      bio.flags = sched::kBioSync;
      bio.start = sched::Sector{places[at_++ % places.size()]};
      bio.length = sched::Sectors{8};
      queue_.submit(worker, bio);
    }
    worker.flush_plug(false);
    outstanding.store(static_cast<unsigned>(bios_.size() - idle_.size()));
  }

  unsigned budget(sched::RequestQueue&) override { return 1U << 20U; }
  bool issue(sched::Request& rq) override {
    held_.push_back(&rq);
    return true;
  }

  sched::RequestQueue& queue_;
  const ClosedLoop& what_;
  const unsigned burst_;
  std::size_t at_;
  std::deque<sched::Bio> bios_;
  std::vector<sched::Bio*> idle_;
  std::vector<sched::Request*> held_;  ///< at the device from first_ on, oldest first
  std::size_t first_ = 0;
};

/// What was done until an instant, by all lanes.
struct Sample {
  Clock::time_point at;
  std::uint64_t answered = 0;
  double cpu_ns = 0;
  double waited_ns = 0;
};

class Run {
 public:
  explicit Run(ClosedLoop& what)
      : what_(what),
        queue_({.limits = {},
                .queue_depth = what.device_tags,
                .workers = what.threads,
                .groups = &groups_}),
        peers_(what.threads) {
    if (what.elevator != nullptr) {
      queue_.set_elevator(std::move(what.elevator));
      queue_.set_nr_requests(std::max({what.outstanding, what.sched_tags, sched::kMinRequests}));
    }
    what.prepare(queue_);
    std::vector<sched::GroupId> groups;
    for (unsigned g = 0; g < what.groups; ++g)
      groups.push_back(groups_.id("/" + std::to_string(g)));
    for (unsigned t = 0; t < what.threads; ++t) {
      const unsigned share =
          what.outstanding / what.threads + (t < what.outstanding % what.threads ? 1U : 0U);
      lanes_.push_back(std::make_unique<Lane>(t, peers_, queue_, what, groups, share));
      peers_[t] = &lanes_.back()->worker;
    }
    for (const auto& lane : lanes_) threads_.emplace_back([this, &lane] { drive(*lane); });
    while (started_.load() != what.threads) std::this_thread::yield();
  }

  LoopResult measure() {
    std::this_thread::sleep_for(what_.duration / 5);
    const Sample before = sample();
    std::this_thread::sleep_for(what_.duration);
    Sample after = sample();
    // A short run on a busy machine: the threads may not have had their turn.
    for (unsigned n = 0; n < 10000 && after.answered == before.answered; ++n) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      after = sample();
    }
    drain(after.answered != before.answered);
    LoopResult result;
    result.ns_a_request = std::chrono::duration<double, std::nano>(after.at - before.at).count() /
                          static_cast<double>(after.answered - before.answered);
    result.wait_share = (after.waited_ns - before.waited_ns) / (after.cpu_ns - before.cpu_ns);
    result.stats = queue_.stats({});
    return result;
  }

 private:
  void drive(Lane& lane) {
    // Else the scheduler moves who slept to the CPU of who woke it, and nothing is contended.
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(lane.worker.index() % std::max(std::thread::hardware_concurrency(), 1U), &cpu);
    pthread_setaffinity_np(pthread_self(), sizeof(cpu), &cpu);
    lane.waited = &lock_wait_ns();
    started_.fetch_add(1);
    for (bool more = true; !over_.load(std::memory_order_relaxed);) {
      if (more && !refill_.load()) {
        more = false;
        refilling_.fetch_sub(1);
      }
      lane.turn(more);
      if (lane.outstanding.load(std::memory_order_relaxed) == 0) std::this_thread::yield();
    }
  }

  Sample sample() {
    Sample sum;
    for (std::size_t t = 0; t < lanes_.size(); ++t) {
      sum.answered += lanes_[t]->answered.load(std::memory_order_relaxed);
      sum.waited_ns += static_cast<double>(lanes_[t]->waited->load(std::memory_order_relaxed));
      clockid_t clock{};
      timespec used{};
      if (pthread_getcpuclockid(threads_[t].native_handle(), &clock) == 0 &&
          clock_gettime(clock, &used) == 0) {
        sum.cpu_ns += static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
      }
    }
    sum.at = Clock::now();
    return sum;
  }

  void drain(bool something_done) {
    refill_.store(false);
    const Clock::time_point give_up = Clock::now() + std::chrono::seconds(10);
    // Only when nobody submits any more is nothing inside for good.
    const auto busy = [this] { return refilling_.load() != 0 || queue_.inside() != 0; };
    while (busy() && Clock::now() < give_up) std::this_thread::yield();
    const bool drained = !busy();
    over_.store(true);
    for (std::thread& thread : threads_) thread.join();
    if (drained && something_done) return;
    std::fprintf(stderr, "%s: %s\n", what_.name.c_str(),
                 drained ? "nothing was done" : "something is lost");
    std::_Exit(1);  // what is lost cannot be taken apart
  }

  ClosedLoop& what_;
  sched::Groups groups_;
  sched::RequestQueue queue_;
  std::vector<sched::Worker*> peers_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::thread> threads_;
  std::atomic<unsigned> started_{0};
  std::atomic<bool> refill_{true};
  std::atomic<unsigned> refilling_{what_.threads};
  std::atomic<bool> over_{false};
};

}  // namespace

std::atomic<std::uint64_t>& lock_wait_ns() {
  thread_local std::atomic<std::uint64_t> waited{0};
  return waited;
}

LoopResult run_closed_loop(ClosedLoop what) { return Run(what).measure(); }

}  // namespace elevd::bench
