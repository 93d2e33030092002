// SPDX-License-Identifier: Apache-2.0
#include "bfq_pool.hpp"

#include <new>

#include "assertion.hpp"
#include "bfq_group.hpp"

namespace elevd::sched {
namespace {

/// Everything about a queue but its links, its class and its weight, as it is for a new issuer.
void make_blank_queue(BfqQueue& queue) {
  static_cast<BfqHabits&>(queue) = {};
  queue.sync = true;
  queue.hole = false;
  queue.raise = 1;
  queue.start = queue.finish = 0;
  queue.service = queue.budget = 0;
  queue.max_budget = 0;
  queue.fifo_checked = false;
  queue.last_end = {};
  queue.seek_history = 1;
  queue.service_since_busy = 0;
  queue.soft_is_due = false;
  queue.owner = nullptr;
  queue.redirect_stable = queue.shared = queue.stable = queue.split_due = queue.was_served = false;
  queue.first_io.reset();
  queue.split_at.reset();
  queue.made_number = queue.suspect = 0;
  queue.suspicions = 0;
}

/// A free one; where there is none, of a new block. Null: no memory.
template <unsigned kBlock, class List, class T>
T* take_free(List& free, std::vector<std::unique_ptr<T[]>>& blocks) {
  if (free.empty()) {
    std::unique_ptr<T[]> block(new (std::nothrow) T[kBlock]);
    if (block == nullptr) return nullptr;
    for (unsigned n = 0; n < kBlock; ++n) free.push_back(block[n]);
    blocks.push_back(std::move(block));
  }
  T& taken = free.front();
  free.pop_front();
  return &taken;
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

BfqPool::BfqPool(BfqGroup& root) : root_(root) {
  fallback_context_.queue = &fallback_;
  fallback_.contexts = 1;
  bfq_join(fallback_, root);
}

BfqPool::~BfqPool() {
  for_each([](BfqQueue& queue) {
    ELEVD_ASSERT(queue.queued == 0 && queue.in_flight == 0 && queue.order.empty());
  });
}

BfqPool::Bucket& BfqPool::bucket(std::uint64_t issuer) {
  constexpr std::uint64_t kGolden = 0x61c8864680b583ebU;
  return table_[(issuer * kGolden) >> (64U - kTableBits)];
}

BfqContext* BfqPool::find(std::uint64_t issuer) {
  for (BfqContext& context : bucket(issuer)) {
    if (context.issuer == issuer) return &context;
  }
  return nullptr;
}

BfqQueue* BfqPool::make_queue() {
  BfqQueue* const queue = take_free<kBlock>(free_queues_, queues_);
  if (queue == nullptr) return nullptr;
  make_blank_queue(*queue);
  if (queue->above == nullptr) bfq_join(*queue, root_);
  return queue;
}

/// Of those that nobody needs: a free one, else the one longest at rest, else a new one. Who is
/// waited for, or has the only way to a queue that competes, is needed.
BfqContext* BfqPool::unused(Instant now) {
  if (!resting_.empty() && free_contexts_.empty()) {
    BfqContext& context = resting_.front();
    const BfqQueue& queue = *context.queue;
    if (context.rests_from + kKeep < now && (!queue.busy || queue.contexts > 1)) {
      resting_.pop_front();
      context.by_issuer.unlink();
      return &context;
    }
  }
  return take_free<kBlock>(free_contexts_, contexts_);
}

BfqContext& BfqPool::get(std::uint64_t issuer, Instant now, bool& made) {
  made = false;
  if (BfqContext* const known = find(issuer)) return *known;
  BfqContext* const context = unused(now);
  if (context == nullptr) return fallback_context_;
  context->issuer = issuer;
  context->stably_merged = false;
  bucket(issuer).push_front(*context);
  rest(*context, true, now);
  made = true;
  return *context;
}

void BfqPool::rest(BfqContext& context, bool on, Instant now) {
  context.at_rest.unlink();
  context.rests_from = now;
  if (on && &context != &fallback_context_) resting_.push_back(context);
}

}  // namespace elevd::sched
