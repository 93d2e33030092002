// SPDX-License-Identifier: Apache-2.0
// Low latency of Bfq: whose weight is raised, and for how long. docs/spec/bfq.md section 9.
#include <algorithm>

#include "bfq.hpp"

namespace elevd::sched {
namespace {

/// A priority that somebody chose is left as it is.
constexpr std::uint32_t kUsualWeight = 40;
constexpr std::uint64_t kMostInteractiveSectors = 120'000;
constexpr std::int64_t kSoftSectorsPerSecond = 7000;
constexpr Duration kSoftTime{300'000'000};
constexpr Duration kSoftMargin{16'000'000};
constexpr Duration kLongIdle{2'000'000'000};
constexpr Duration kBurstInterval{180'000'000};
constexpr Duration kAfterSplit{2'000'000'000};
constexpr Duration kBurstForgotten{10'000'000'000};

}  // namespace

/// Many queues made in a row are one program starting up; they want throughput, none is raised.
void Bfq::note_created(BfqQueue& queue) {
  queue.soft_from = now_;
  const bool goes_on =
      burst_size_ != 0 && now_ <= last_created_ + kBurstInterval && burst_group_ == queue.above->id;
  last_created_ = now_;
  if (!goes_on) {
    large_burst_ = false;
    burst_size_ = 0;
    burst_group_ = queue.above->id;
    if (busy_total() == 0) burst_[burst_size_++] = &queue;
    return;
  }
  queue.in_burst = large_burst_;
  if (large_burst_) return;
  burst_[burst_size_++] = &queue;
  large_burst_ = burst_size_ == kLargeBurst;
  if (!large_burst_) return;
  for (BfqQueue* member : burst_) {
    if (member != nullptr) member->in_burst = true;
  }
}

void Bfq::raise(BfqQueue& queue, std::uint32_t factor, Instant start, Duration time) {
  queue.raise = factor;
  queue.wanted_weight = queue.base_weight * factor;
  queue.raise_start = start;
  queue.raise_time = time;
}

void Bfq::raise_interactive(BfqQueue& queue) {
  if (queue.raise == 1) queue.service_raised = 0;
  queue.interactive_start.reset();
  raise(queue, kInteractive, now_, rate().interactive_time());
}

void Bfq::end_raise(BfqQueue& queue) {
  if (queue.raise == kInteractive) queue.soft_from = now_;
  queue.interactive_start.reset();
  queue.raise = 1;
  queue.wanted_weight = queue.base_weight;
  if (&queue == serving_) queue.tree->take_over_weight(queue);
}

/// A soft real-time issuer that began as an interactive one may still be that.
void Bfq::end_soft(BfqQueue& queue) {
  const Duration time = rate().interactive_time();
  if (queue.interactive_start && now_ < *queue.interactive_start + time) {
    raise(queue, kInteractive, *queue.interactive_start, time);
    queue.interactive_start.reset();
    if (&queue == serving_) queue.tree->take_over_weight(queue);
    return;
  }
  end_raise(queue);
}

/// At the first request of a queue that was not busy, before it is activated.
void Bfq::decide_raise(BfqQueue& queue) {
  const bool at_rest = queue.in_flight == 0;
  if (at_rest && queue.idle_from && *queue.idle_from + kBurstForgotten < now_) {
    queue.in_burst = false;
  }
  if (!tunables_.low_latency || !queue.sync) return;
  if (queue.split_at && now_ < *queue.split_at + kAfterSplit) return;
  // What several share for a time is nobody's.
  if (queue.raise == 1 && queue.owner == nullptr && !queue.stable) return;
  const bool may = queue.base_weight == kUsualWeight && !queue.in_burst && at_rest;
  const bool interactive = may && (!queue.idle_from || *queue.idle_from + kLongIdle < now_);
  const bool soft = may && !queue.totally_seeky() && queue.soft_from && *queue.soft_from < now_;
  if (queue.raise == 1) {
    if (!interactive && !soft) return;
    if (interactive) {
      raise_interactive(queue);
    } else {
      raise(queue, kSoft, now_, kSoftTime);
    }
    queue.budget = std::min(queue.budget, 2 * min_budget());
  } else if (interactive) {
    raise_interactive(queue);
  } else if (queue.in_burst) {
    end_raise(queue);
  } else if (soft) {
    if (queue.raise != kSoft) queue.interactive_start = queue.raise_start;
    raise(queue, kSoft, now_, kSoftTime);
  }
}

/// After each request of the queue in service.
void Bfq::look_at_raise(BfqQueue& queue) {
  if (queue.raise == 1) return;
  if (queue.in_burst) {
    end_raise(queue);
  } else if (queue.raise == kSoft) {
    if (queue.raise_start + queue.raise_time < now_ || queue.totally_seeky()) end_soft(queue);
  } else if (queue.raise_start + queue.raise_time < now_ ||
             queue.service_raised > kMostInteractiveSectors) {
    end_raise(queue);
  }
}

/// When a next request comes only after this, the issuer needs no more than a soft real-time one.
void Bfq::note_soft_from(BfqQueue& queue) {
  const auto by_rate =
      static_cast<std::int64_t>(queue.service_since_busy) * 1'000'000'000 / kSoftSectorsPerSecond;
  const Instant from =
      std::max(queue.busy_from + Duration{by_rate}, now_ + slice_idle() + kSoftMargin);
  queue.soft_from = std::max(queue.soft_from.value_or(from), from);
}

void Bfq::end_all_raising() {
  pool_.for_each([this](BfqQueue& queue) {
    if (queue.raise == 1) return;
    end_raise(queue);
    note_use(queue);
  });
}

}  // namespace elevd::sched
