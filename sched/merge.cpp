// SPDX-License-Identifier: Apache-2.0
#include "merge.hpp"

#include <algorithm>

namespace elevd::sched {
namespace {

constexpr BioFlags kNeverMerged = kBioNoMerge | kBioPreflush | kBioFua;

bool within_limits(const Limits& limits, Op op, Sector start, Sectors length,
                   std::uint32_t segment_count) {
  return length <= max_request_sectors(limits, op, start) && segment_count <= limits.max_segments;
}

}  // namespace

bool mergeable(const Request& rq) {
  return (rq.flags & (kRqNoMerge | kRqFlushSeq | kRqStarted | kRqFlush)) == 0 &&
         (rq.bio_flags & kNeverMerged) == 0 && rq.op != Op::flush && rq.op != Op::write_zeroes;
}

MergeResult merge_kind(const Request& rq, const Bio& bio) {
  if (rq.op != bio.op || !mergeable(rq) || (bio.flags & kNeverMerged) != 0 ||
      rq.priority.chosen() != bio.priority.chosen()) {
    return MergeResult::none;
  }
  if (rq.end() == bio.start) return MergeResult::back;
  if (bio.end() == rq.start) return MergeResult::front;
  return MergeResult::none;
}

MergeResult try_merge(const Limits& limits, Request& rq, Bio& bio) {
  const MergeResult kind = merge_kind(rq, bio);
  if (kind == MergeResult::none) return kind;
  const std::uint32_t more = segments(limits, bio.op, bio.length);
  const Sector start = kind == MergeResult::back ? rq.start : bio.start;
  if (!within_limits(limits, rq.op, start, rq.length + bio.length, rq.segment_count + more)) {
    rq.flags |= kRqNoMerge;
    return MergeResult::refused;
  }
  if (kind == MergeResult::back) {
    bio.next = nullptr;
    rq.last->next = &bio;
    rq.last = &bio;
  } else {
    bio.next = rq.first;
    rq.first = &bio;
    rq.start = bio.start;
  }
  rq.length += bio.length;
  rq.segment_count += more;
  return kind;
}

bool try_merge_requests(const Limits& limits, Request& rq, Request& next) {
  if (rq.op != next.op || !mergeable(rq) || !mergeable(next) ||
      rq.priority.chosen() != next.priority.chosen() || rq.end() != next.start) {
    return false;
  }
  if (!within_limits(limits, rq.op, rq.start, rq.length + next.length,
                     rq.segment_count + next.segment_count)) {
    rq.flags |= kRqNoMerge;
    return false;
  }
  rq.last->next = next.first;
  rq.last = next.last;
  rq.length += next.length;
  rq.segment_count += next.segment_count;
  rq.allocated = std::min(rq.allocated, next.allocated);
  next.first = nullptr;
  next.last = nullptr;
  return true;
}

}  // namespace elevd::sched
