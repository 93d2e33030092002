// SPDX-License-Identifier: Apache-2.0
// The merging of Bfq, only inside a queue: docs/spec/bfq.md section 8.
#include <iterator>

#include "bfq.hpp"

namespace elevd::sched {
namespace {

std::int64_t due_at(const Request& rq) { return static_cast<std::int64_t>(rq.elevator_word); }

}  // namespace

/// A plug holds bios of several issuers; only those that go to one queue may share a request.
bool Bfq::allow_merge(const Request& rq, const Bio& bio) const {
  const bool sync = bio.op == Op::read || (bio.flags & kBioSync) != 0;
  const bool rq_sync = rq.op == Op::read || (rq.bio_flags & kBioSync) != 0;
  if (sync != rq_sync || rq.group != bio.group) return false;
  return sync ? rq.issuer == bio.issuer : rq.priority.effective() == bio.priority.effective();
}

// --- Neighbours ---------------------------------------------------------------------------------

Request* Bfq::find_end(const BfqQueue& queue, Sector end) {
  return hash_.find(end, [&queue](const Request& rq) { return &queue_of(rq) == &queue; });
}

Request* Bfq::find_start(BfqQueue& queue, Sector start) {
  const auto it = queue.order.lower_bound(start, BfqQueue::ByStart{});
  return it == queue.order.end() || it->start != start ? nullptr : &*it;
}

/// It refused a neighbour for its size: it is looked for no more.
void Bfq::no_more_merges(Request& rq) {
  rq.flags |= kRqNoMerge;
  rq.hash_hook.unlink();
  if (last_merge_ == &rq) last_merge_ = nullptr;
}

// --- Request and request ------------------------------------------------------------------------

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

/// `rq`, which is queued, takes `next` in (queued, or on its way in), with its place if that is
/// better.
bool Bfq::absorb(Request& rq, Request& next, RequestList& merged) {
  BfqQueue& queue = queue_of(rq);
  if (&queue_of(next) != &queue) return false;
  const Sector from = next.start;
  const Sector to = next.end();
  if (!try_merge_requests(limits(), rq, next)) {
    if ((rq.flags & kRqNoMerge) != 0) no_more_merges(rq);
    return false;
  }
  if (next.fifo_hook.is_linked() && due_at(next) < due_at(rq)) {
    queue.fifo.splice(queue.fifo.iterator_to(next), queue.fifo, queue.fifo.iterator_to(rq));
    rq.elevator_word = next.elevator_word;
    rq.inserted = next.inserted;
  }
  if (queue.next == &next) queue.next = &rq;
  note_grown(queue, from, to);
  merged_away(next, merged);
  hash_.add(rq);
  last_merge_ = &rq;
  if (queue.next == &rq) next_changed(queue);
  return true;
}

/// `rq`, on its way in, takes the queued `next` in and stands in its place: what a front merge of
/// its bio would have come to.
bool Bfq::put_before(Request& rq, Request& next, RequestList& merged) {
  BfqQueue& queue = queue_of(rq);
  if (!try_merge_requests(limits(), rq, next)) {
    if ((rq.flags & kRqNoMerge) != 0) {
      rq.flags = static_cast<RequestFlags>(rq.flags & ~kRqNoMerge);
      no_more_merges(next);
    }
    return false;
  }
  queue.fifo.insert(queue.fifo.iterator_to(next), rq);
  rq.elevator_word = next.elevator_word;
  rq.inserted = next.inserted;
  if (queue.next == &next) queue.next = &rq;
  link(queue, rq);
  merged_away(next, merged);
  hash_.add(rq);
  last_merge_ = &rq;
  return true;
}

/// After a back merge: the next one in sector order may follow now.
void Bfq::grown_at_end(Request& rq, RequestList& merged) {
  BfqQueue& queue = queue_of(rq);
  const auto next = std::next(queue.order.iterator_to(rq));
  if (next != queue.order.end() && absorb(rq, *next, merged)) return;
  if (queue.next == &rq) next_changed(queue);
  if (!mergeable(rq)) return;
  hash_.add(rq);
  last_merge_ = &rq;
}

/// After a front merge: the one before may reach up to it now; else it has a new place, which may
/// make it the next.
void Bfq::grown_at_front(Request& rq, RequestList& merged) {
  BfqQueue& queue = queue_of(rq);
  const auto at = queue.order.iterator_to(rq);
  if (at != queue.order.begin() && absorb(*std::prev(at), rq, merged)) return;
  queue.order.erase(at);
  queue.order.insert(rq);
  last_merge_ = &rq;
  queue.next = better(queue, queue.next, &rq, last_position_);
  next_changed(queue);
}

// --- Bio and request ----------------------------------------------------------------------------

MergeResult Bfq::join(Request& rq, Bio& bio, RequestList& merged) {
  const MergeResult kind = try_merge(limits(), rq, bio);
  if (kind == MergeResult::refused) no_more_merges(rq);
  if (kind == MergeResult::back) {
    note_grown(queue_of(rq), bio.start, bio.end());
    grown_at_end(rq, merged);
  }
  if (kind == MergeResult::front) grown_at_front(rq, merged);
  return kind;
}

MergeResult Bfq::bio_merge(Bio& bio, RequestList& merged, Instant now) {
  note_time(now);
  BfqQueue* const queue = known_queue_for(bio);
  if (queue == nullptr) return MergeResult::none;
  if (last_merge_ != nullptr && &queue_of(*last_merge_) == queue) {
    const MergeResult kind = join(*last_merge_, bio, merged);
    if (kind != MergeResult::none) return kind;
  }
  if (nomerges() != 0) return MergeResult::none;
  Request* before = find_end(*queue, bio.start);
  if (before != nullptr && merge_kind(*before, bio) == MergeResult::back) {
    return join(*before, bio, merged);
  }
  Request* behind = find_start(*queue, bio.end());
  if (behind != nullptr && merge_kind(*behind, bio) == MergeResult::front) {
    return join(*behind, bio, merged);
  }
  return MergeResult::none;
}

// --- At insertion -------------------------------------------------------------------------------

/// Backward only: `rq` joins what ends where it starts, and so on with what has grown.
bool Bfq::insert_merge(Request& rq, RequestList& merged) {
  BfqQueue& queue = queue_of(rq);
  if (last_merge_ != nullptr && last_merge_->end() == rq.start &&
      absorb(*last_merge_, rq, merged)) {
    return true;
  }
  if (nomerges() != 0) return false;
  bool absorbed = false;
  Request* grown = &rq;
  while (Request* before = find_end(queue, grown->start)) {
    if (!absorb(*before, *grown, merged)) break;
    grown = before;
    absorbed = true;
  }
  return absorbed;
}

/// As `join` of a bio: `rq` is on its way in.
MergeResult Bfq::join(Request& queued, Request& rq, RequestList& merged) {
  if (queued.end() == rq.start) {
    if (!absorb(queued, rq, merged)) {
      return mergeable(queued) ? MergeResult::none : MergeResult::refused;
    }
    grown_at_end(queued, merged);
    return MergeResult::back;
  }
  if (rq.end() != queued.start) return MergeResult::none;
  if (!put_before(rq, queued, merged)) {
    return mergeable(queued) ? MergeResult::none : MergeResult::refused;
  }
  grown_at_front(rq, merged);
  return MergeResult::front;
}

/// The lookup of bio_merge for a request whose bio had none, because the lock was contended: the
/// same tests in the same order.
MergeResult Bfq::late_bio_merge(Request& rq, RequestList& merged) {
  BfqQueue& queue = queue_of(rq);
  MergeResult kind = MergeResult::none;
  if (last_merge_ != nullptr && &queue_of(*last_merge_) == &queue) {
    kind = join(*last_merge_, rq, merged);
  }
  if (kind == MergeResult::none && nomerges() == 0) {
    Request* before = find_end(queue, rq.start);
    if (before != nullptr) kind = join(*before, rq, merged);
    if (kind == MergeResult::none) {
      Request* behind = find_start(queue, rq.end());
      if (behind != nullptr) kind = join(*behind, rq, merged);
    }
  }
  return kind;
}

/// What of a request on its way in can join what is queued. True: `rq` is queued now, or in one
/// that is.
bool Bfq::merge_in(Request& rq, RequestList& merged) {
  if ((rq.flags & kRqLookupSkipped) != 0) {
    // Who found nobody behind or before it has looked for what insert_merge looks for.
    const MergeResult kind = late_bio_merge(rq, merged);
    if (kind != MergeResult::refused) return kind != MergeResult::none;
  }
  return insert_merge(rq, merged);
}

}  // namespace elevd::sched
