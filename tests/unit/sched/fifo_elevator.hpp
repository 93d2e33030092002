// SPDX-License-Identifier: Apache-2.0
// FifoElevator: first in, first out; an elevator for tests of what is around one.
//
// Owns:       a list of requests.
// Thread:     as Elevator says.
// Invariants: at-head requests are before all others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "sched/elevator.hpp"

namespace elevd::sched::test {

class FifoElevator : public Elevator {
 public:
  struct Options {
    Limits limits;
    bool merges = false;      ///< at insertion and of bios, by looking at every request
    bool hold = false;        ///< gives nothing out
    bool veto = false;        ///< allow_merge says no
    unsigned most_out = ~0U;  ///< requests out at a time; a completion then allows the next
    std::uint32_t sync_write_shallow = Sbitmap::kUnlimited;
    std::uint32_t async_shallow = Sbitmap::kUnlimited;
    std::optional<Instant> wake_at;
  };
  /// `options` is looked at on every call and may be changed by the test at any time.
  explicit FifoElevator(const Options& options) : options_(options) {}

  [[nodiscard]] std::string_view name() const override { return "fifo"; }

  void insert(RequestList& list, RequestList& merged, Instant) override {
    while (!list.empty()) {
      Request& rq = list.front();
      list.pop_front();
      if (options_.merges && joins_a_queued_one(rq)) {
        merged.push_back(rq);
      } else if ((rq.flags & kRqAtHead) != 0) {
        queued_.push_front(rq);
      } else {
        queued_.push_back(rq);
      }
    }
  }

  Request* dispatch(Instant) override {
    ++dispatch_calls;
    if (options_.hold || queued_.empty() || out_ >= options_.most_out) return nullptr;
    ++out_;
    Request& rq = queued_.front();
    queued_.pop_front();
    return &rq;
  }

  [[nodiscard]] bool has_work() const override { return !queued_.empty(); }

  MergeResult bio_merge(Bio& bio, RequestList&, Instant) override {
    if (!options_.merges) return MergeResult::none;
    for (Request& rq : queued_) {
      const MergeResult kind = try_merge(options_.limits, rq, bio);
      if (kind != MergeResult::none) return kind;
    }
    return MergeResult::none;
  }

  [[nodiscard]] bool allow_merge(const Request&, const Bio&) const override {
    return !options_.veto;
  }

  [[nodiscard]] bool completed(Request&, Instant) override {
    ++completed_calls;
    return out_-- >= options_.most_out;
  }

  [[nodiscard]] DepthLimit limit(const Bio& bio) const override {
    if (bio.is_sync_read()) return {};
    if ((bio.flags & kBioSync) != 0) return {DepthClass::sync_write, options_.sync_write_shallow};
    return {DepthClass::async, options_.async_shallow};
  }

  [[nodiscard]] std::uint32_t depth_updated(std::uint32_t nr, std::uint32_t async) override {
    nr_requests = nr;
    async_depth = async;
    return std::min(options_.async_shallow, options_.sync_write_shallow);
  }

  [[nodiscard]] std::optional<Instant> wake_at() const override { return options_.wake_at; }

  std::uint32_t nr_requests = 0;
  std::uint32_t async_depth = 0;
  unsigned dispatch_calls = 0;
  unsigned completed_calls = 0;

 private:
  bool joins_a_queued_one(Request& rq) {
    for (Request& queued : queued_) {
      if (try_merge_requests(options_.limits, queued, rq)) return true;
    }
    return false;
  }

  const Options& options_;
  RequestList queued_;
  unsigned out_ = 0;
};

}  // namespace elevd::sched::test
