// SPDX-License-Identifier: Apache-2.0
// The merging of Bfq, only inside a queue: docs/spec/bfq.md section 8.
#include "bfq.hpp"

namespace elevd::sched {

/// A plug holds bios of several issuers; only those that go to one queue may share a request.
bool Bfq::allow_merge(const Request& rq, const Bio& bio) const {
  const bool sync = is_sync(bio.op, bio.flags);
  const bool rq_sync = is_sync(rq.op, rq.bio_flags);
  if (sync != rq_sync || rq.group != bio.group) return false;
  return sync ? rq.issuer == bio.issuer : rq.priority.effective() == bio.priority.effective();
}

MergeResult Bfq::bio_merge(Bio& bio, RequestList& merged, Instant now) {
  note_time(now);
  BfqQueue* const queue = known_queue_for(bio);
  return queue == nullptr ? MergeResult::none : merge_bio(*queue, bio, merged);
}

/// `rq` was taken into another one of its queue.
void Bfq::merged_away(Request& rq, RequestList& merged) {
  if (rq.fifo_hook.is_linked()) bfq_count_allocated(queue_of(rq), -1);
  unlink(queue_of(rq), rq);
  ++counts_.merged;
  if (&rq == sampled_) sampled_ = nullptr;
  rq.elevator_data = nullptr;
  forget_issuer(rq);
  merged.push_back(rq);
}

void Bfq::replaced(const Request& rq, Request& by) {
  BfqQueue& queue = queue_of(by);
  if (queue.next == &rq) queue.next = &by;
}

/// If what ended at `from` was the latest request of the queue, the next one is near or far from
/// `to`.
void Bfq::grown(const Request& rq, Sector from, Sector to) {
  BfqQueue& queue = queue_of(rq);
  if (queue.last_end == from) queue.last_end = to;
}

/// Its new place may make it the next.
void Bfq::moved(Request& rq) {
  BfqQueue& queue = queue_of(rq);
  queue.next = better(queue, queue.next, &rq, last_position_);
  next_changed(queue);
}

void Bfq::changed(const Request& rq) {
  BfqQueue& queue = queue_of(rq);
  if (queue.next == &rq) next_changed(queue);
}

}  // namespace elevd::sched
