// SPDX-License-Identifier: Apache-2.0
#include <new>

#include "assertion.hpp"
#include "bfq_group.hpp"
#include "bfq_queue.hpp"

namespace elevd::sched {
namespace {

/// Everything about a queue but its links and its class, as it is for a new issuer.
void make_blank_queue(BfqQueue& queue, std::uint64_t issuer) {
  queue.issuer = issuer;
  queue.sync = true;
  queue.hole = false;
  queue.raise = 1;
  queue.start = queue.finish = 0;
  queue.service = queue.budget = 0;
  queue.max_budget = 0;
  queue.fifo_checked = false;
  queue.last_end = {};
  queue.seek_history = 1;
  queue.last_completion.reset();
  queue.think_samples = queue.think_total = 0;
  queue.short_think = true;
  queue.io_bound = true;
  queue.window_start.reset();
  queue.idle_in_window = {};
  queue.idle_from.reset();
  queue.soft_from.reset();
  queue.interactive_start.reset();
  queue.service_since_busy = queue.service_raised = 0;
  queue.soft_is_due = false;
  queue.in_burst = false;
}

}  // namespace

BfqPriority BfqPriority::of(IoPriority io_priority) {
  const IoPriority priority = io_priority.effective();
  const auto level = static_cast<std::uint8_t>(priority.level());
  switch (priority.io_class()) {
    case 1:
      return {BfqPriority::kRealTime, level};
    case 2:
      return {BfqPriority::kBestEffort, level};
    case 3:
      return {BfqPriority::kIdle, BfqPriority::kLevels - 1};
    default:
      return {};
  }
}

BfqPool::BfqPool(BfqGroup& root) : root_(root) { bfq_join(shared_, root); }

BfqPool::~BfqPool() {
  for_each([](BfqQueue& queue) {
    ELEVD_ASSERT(queue.queued == 0 && queue.in_flight == 0 && queue.order.empty());
  });
}

BfqPool::Bucket& BfqPool::bucket(std::uint64_t issuer) {
  constexpr std::uint64_t kGolden = 0x61c8864680b583ebU;
  return table_[(issuer * kGolden) >> (64U - kTableBits)];
}

BfqQueue* BfqPool::find(std::uint64_t issuer) {
  for (BfqQueue& queue : bucket(issuer)) {
    if (queue.issuer == issuer) return &queue;
  }
  return nullptr;
}

/// Of those that nobody needs: a free one, else the one longest at rest, else a new one.
BfqQueue* BfqPool::unused(Instant now) {
  if (!free_.empty()) {
    BfqQueue& queue = free_.front();
    free_.pop_front();
    return &queue;
  }
  if (!resting_.empty()) {
    BfqQueue& queue = resting_.front();
    if (!queue.last_completion || *queue.last_completion + kKeep < now) {
      resting_.pop_front();
      queue.by_issuer.unlink();
      if (queue.tree != nullptr) queue.tree->remove(queue);
      return &queue;
    }
  }
  std::unique_ptr<BfqQueue[]> block(new (std::nothrow) BfqQueue[kBlock]);
  if (block == nullptr) return nullptr;
  for (unsigned n = 1; n < kBlock; ++n) free_.push_back(block[n]);
  blocks_.push_back(std::move(block));
  return &blocks_.back()[0];
}

BfqQueue& BfqPool::get(std::uint64_t issuer, Instant now, bool& made) {
  made = false;
  if (BfqQueue* const known = find(issuer)) return *known;
  BfqQueue* const queue = unused(now);
  if (queue == nullptr) return shared_;
  make_blank_queue(*queue, issuer);
  bfq_join(*queue, root_);
  bucket(issuer).push_front(*queue);
  made = true;
  return *queue;
}

void BfqPool::rest(BfqQueue& queue, bool on) {
  queue.at_rest.unlink();
  if (on && queue.by_issuer.is_linked()) resting_.push_back(queue);
}

}  // namespace elevd::sched
