// SPDX-License-Identifier: Apache-2.0
// TortureElevator: first in, first out, with everything that makes an elevator hard to serve: depth
// classes, a limit of requests that are out, a timer, merging at insertion and of bios.
//
// Owns:       a list of requests.
// Thread:     as sched::Elevator says; set_limits with the queue frozen.
// Time:       requests leave not before `hold` has passed.
// Invariants: nothing is queued or out when it is destroyed; no call but dispatch while its queue
//             is frozen (a dispatcher may look once more, and finds nothing).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "report.hpp"
#include "sched/elevator.hpp"

namespace elevd::torture {

class TortureElevator : public sched::Elevator {
 public:
  struct Options {
    bool merges = true;
    unsigned most_out = ~0U;            ///< requests out at a time
    sched::Duration hold{0};            ///< time that a request stays at least
    std::uint32_t sync_percent = 100;   ///< of async_depth, for synchronous writes
    std::uint32_t async_percent = 100;  ///< of async_depth, for everything else but reads
  };
  TortureElevator(const Options& options, const sched::Limits& limits,
                  const std::atomic<bool>& frozen)
      : options_(options), limits_(limits), frozen_(frozen) {}
  ~TortureElevator() override {
    check(queued_.empty() && out_ == 0, "an elevator was destroyed with requests in it");
  }

  [[nodiscard]] std::string_view name() const override { return "torture"; }

  void set_limits(const sched::Limits& limits) { limits_ = limits; }

  void insert(sched::RequestList& list, sched::RequestList& merged, sched::Instant) override {
    touched("insert");
    while (!list.empty()) {
      sched::Request& rq = list.front();
      list.pop_front();
      if (options_.merges && joins_a_queued_one(rq)) {
        merged.push_back(rq);
        continue;
      }
      rq.elevator_data = this;
      if ((rq.flags & sched::kRqAtHead) != 0) {
        queued_.push_front(rq);
      } else {
        queued_.push_back(rq);
      }
    }
  }

  sched::Request* dispatch(sched::Instant now) override {
    wake_at_.reset();
    if (queued_.empty() || out_ >= options_.most_out) return nullptr;
    touched("dispatch");
    sched::Request& rq = queued_.front();
    if (const sched::Instant due = rq.inserted + options_.hold; now < due) {
      wake_at_ = due;
      return nullptr;
    }
    queued_.pop_front();
    ++out_;
    return &rq;
  }

  [[nodiscard]] bool has_work() const override { return !queued_.empty(); }

  sched::MergeResult bio_merge(sched::Bio& bio, sched::RequestList&, sched::Instant) override {
    touched("bio_merge");
    if (!options_.merges) return sched::MergeResult::none;
    unsigned looked = 0;
    for (auto it = queued_.rbegin(); it != queued_.rend() && looked < kSearch; ++it, ++looked) {
      const sched::MergeResult kind = sched::try_merge(limits_, *it, bio);
      if (kind != sched::MergeResult::none) return kind;
    }
    return sched::MergeResult::none;
  }

  [[nodiscard]] bool allow_merge(const sched::Request&, const sched::Bio& bio) const override {
    return (bio.start.value & 64U) == 0;
  }

  [[nodiscard]] bool completed(sched::Request& rq, sched::Instant) override {
    touched("completed");
    check(rq.elevator_data == this && out_ > 0, "completed() for a request that was not out");
    rq.elevator_data = nullptr;
    return out_-- >= options_.most_out;
  }

  [[nodiscard]] sched::DepthLimit limit(const sched::Bio& bio) const override {
    if (bio.is_sync_read()) return {};
    if (bio.op == sched::Op::write && (bio.flags & sched::kBioSync) != 0) {
      return {sched::DepthClass::sync_write, sync_shallow_.load(std::memory_order_relaxed)};
    }
    return {sched::DepthClass::async, async_shallow_.load(std::memory_order_relaxed)};
  }

  [[nodiscard]] std::uint32_t depth_updated(std::uint32_t, std::uint32_t async_depth) override {
    sync_shallow_ = std::max(1U, async_depth * options_.sync_percent / 100);
    async_shallow_ = std::max(1U, async_depth * options_.async_percent / 100);
    return std::min(sync_shallow_.load(), async_shallow_.load());
  }

  [[nodiscard]] std::optional<sched::Instant> wake_at() const override { return wake_at_; }

 private:
  static constexpr unsigned kSearch = 8;

  void touched(const char* by) const {
    if (frozen_.load(std::memory_order_relaxed)) fail("the elevator of a frozen queue: %s()", by);
  }

  bool joins_a_queued_one(sched::Request& rq) {
    unsigned looked = 0;
    for (auto it = queued_.rbegin(); it != queued_.rend() && looked < kSearch; ++it, ++looked) {
      if (sched::try_merge_requests(limits_, *it, rq)) return true;
    }
    return false;
  }

  const Options options_;
  sched::Limits limits_;
  const std::atomic<bool>& frozen_;
  sched::RequestList queued_;
  unsigned out_ = 0;
  std::optional<sched::Instant> wake_at_;
  std::atomic<std::uint32_t> sync_shallow_{~0U};
  std::atomic<std::uint32_t> async_shallow_{~0U};
};

}  // namespace elevd::torture
