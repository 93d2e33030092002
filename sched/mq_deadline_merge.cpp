// SPDX-License-Identifier: Apache-2.0
// The merging of MqDeadline: docs/spec/mq-deadline.md section 5.
#include "mq_deadline.hpp"

namespace elevd::sched {

MergeResult MqDeadline::bio_merge(Bio& bio, RequestList& merged, Instant now) {
  note_time(now);
  return merge_bio(classes_[class_of(bio.priority)].lanes[direction(bio.op)], bio, merged);
}

/// `rq` was taken into another one (section 5.4).
void MqDeadline::merged_away(Request& rq, RequestList& merged) {
  PerClass& io_class = class_of(rq);
  unlink(rq);
  ++io_class.merged;
  io_class.queued.fetch_sub(1, std::memory_order_seq_cst);  // never to 0: the other one is there
  rq.elevator_data = nullptr;
  merged.push_back(rq);
}

}  // namespace elevd::sched
