// SPDX-License-Identifier: Apache-2.0
// The merging of MqDeadline: docs/spec/mq-deadline.md section 5.
#include <iterator>

#include "mq_deadline.hpp"

namespace elevd::sched {

// --- Neighbours ---------------------------------------------------------------------------------

Request* MqDeadline::find_end(Sector end) {
  return hash_.find(end, [](const Request&) { return true; });
}

Request* MqDeadline::find_start(PerClass& io_class, unsigned direction, Sector start) {
  Tree& tree = io_class.tree[direction];
  const auto it = tree.lower_bound(start, ByStart{});
  return it == tree.end() || it->start != start ? nullptr : &*it;
}

/// It refused a neighbour for its size: it is looked for no more.
void MqDeadline::no_more_merges(Request& rq) {
  rq.flags |= kRqNoMerge;
  rq.hash_hook.unlink();
  if (last_merge_ == &rq) last_merge_ = nullptr;
}

// --- Request and request (section 5.4) ----------------------------------------------------------

/// `rq` was taken into another one.
void MqDeadline::merged_away(Request& rq, RequestList& merged) {
  PerClass& io_class = class_of(rq);
  unlink(rq);
  ++io_class.merged;
  io_class.queued.fetch_sub(1, std::memory_order_seq_cst);  // never to 0: the other one is there
  rq.elevator_data = nullptr;
  merged.push_back(rq);
}

/// `rq`, which is queued, takes `next` in (queued, or on its way in), with its place if that is
/// better.
bool MqDeadline::absorb(Request& rq, Request& next, RequestList& merged) {
  if (!try_merge_requests(limits(), rq, next)) {
    if ((rq.flags & kRqNoMerge) != 0) no_more_merges(rq);
    return false;
  }
  if (next.fifo_hook.is_linked() && deadline(next) < deadline(rq)) {
    Fifo& fifo = class_of(rq).fifo[direction(rq.op)];
    fifo.splice(fifo.iterator_to(next), fifo, fifo.iterator_to(rq));
    rq.elevator_word = next.elevator_word;
    rq.inserted = next.inserted;
  }
  merged_away(next, merged);
  hash_.add(rq);
  last_merge_ = &rq;
  return true;
}

/// `rq`, on its way in, takes the queued `next` in and stands in its place: what a front merge of
/// its bio would have come to.
bool MqDeadline::put_before(Request& rq, Request& next, RequestList& merged) {
  if (!try_merge_requests(limits(), rq, next)) {
    if ((rq.flags & kRqNoMerge) != 0) {
      rq.flags = static_cast<RequestFlags>(rq.flags & ~kRqNoMerge);
      no_more_merges(next);
    }
    return false;
  }
  Fifo& fifo = class_of(rq).fifo[direction(rq.op)];
  fifo.insert(fifo.iterator_to(next), rq);
  rq.elevator_word = next.elevator_word;
  rq.inserted = next.inserted;
  merged_away(next, merged);
  link(rq);
  hash_.add(rq);
  last_merge_ = &rq;
  return true;
}

/// After a back merge: the next one in sector order may follow now.
void MqDeadline::grown_at_end(Request& rq, RequestList& merged) {
  Tree& tree = class_of(rq).tree[direction(rq.op)];
  const auto next = std::next(tree.iterator_to(rq));
  if (next != tree.end() && absorb(rq, *next, merged)) return;
  if (!mergeable(rq)) return;
  hash_.add(rq);
  last_merge_ = &rq;
}

/// After a front merge: the one before may reach up to it now; else it has a new place.
void MqDeadline::grown_at_front(Request& rq, RequestList& merged) {
  Tree& tree = class_of(rq).tree[direction(rq.op)];
  const auto at = tree.iterator_to(rq);
  if (at != tree.begin() && absorb(*std::prev(at), rq, merged)) return;
  tree.erase(at);
  tree.insert(rq);
  last_merge_ = &rq;
}

// --- Bio and request (section 5.2) --------------------------------------------------------------

MergeResult MqDeadline::join(Request& rq, Bio& bio, RequestList& merged) {
  const MergeResult kind = try_merge(limits(), rq, bio);
  if (kind == MergeResult::refused) no_more_merges(rq);
  if (kind == MergeResult::back) grown_at_end(rq, merged);
  if (kind == MergeResult::front) grown_at_front(rq, merged);
  return kind;
}

MergeResult MqDeadline::bio_merge(Bio& bio, RequestList& merged, Instant now) {
  note_time(now);
  if (last_merge_ != nullptr) {
    const MergeResult kind = join(*last_merge_, bio, merged);
    if (kind != MergeResult::none) return kind;
  }
  if (nomerges() != 0) return MergeResult::none;
  Request* before = find_end(bio.start);
  if (before != nullptr && merge_kind(*before, bio) == MergeResult::back) {
    return join(*before, bio, merged);
  }
  if (tunables_.front_merges == 0) return MergeResult::none;
  Request* behind = find_start(classes_[class_of(bio.priority)], direction(bio.op), bio.end());
  if (behind != nullptr && merge_kind(*behind, bio) == MergeResult::front) {
    return join(*behind, bio, merged);
  }
  return MergeResult::none;
}

// --- At insertion (section 5.3) -----------------------------------------------------------------

/// Backward only: `rq` joins what ends where it starts, and so on with what has grown.
bool MqDeadline::insert_merge(Request& rq, RequestList& merged) {
  if (last_merge_ != nullptr && last_merge_->end() == rq.start &&
      absorb(*last_merge_, rq, merged)) {
    return true;
  }
  if (nomerges() != 0) return false;
  bool absorbed = false;
  Request* grown = &rq;
  while (Request* before = find_end(grown->start)) {
    if (!absorb(*before, *grown, merged)) break;
    grown = before;
    absorbed = true;
  }
  return absorbed;
}

/// As `join` of a bio: `rq` is on its way in.
MergeResult MqDeadline::join(Request& queued, Request& rq, RequestList& merged) {
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
MergeResult MqDeadline::late_bio_merge(Request& rq, RequestList& merged) {
  MergeResult kind = MergeResult::none;
  if (last_merge_ != nullptr) kind = join(*last_merge_, rq, merged);
  if (kind == MergeResult::none && nomerges() == 0) {
    Request* before = find_end(rq.start);
    if (before != nullptr) kind = join(*before, rq, merged);
    if (kind == MergeResult::none && tunables_.front_merges != 0) {
      Request* behind = find_start(class_of(rq), direction(rq.op), rq.end());
      if (behind != nullptr) kind = join(*behind, rq, merged);
    }
  }
  return kind;
}

/// What of a request on its way in can join what is queued. True: `rq` is queued now, or in one
/// that is.
bool MqDeadline::merge_in(Request& rq, RequestList& merged) {
  if ((rq.flags & kRqLookupSkipped) != 0) {
    // Who found nobody behind or before it has looked for what insert_merge looks for.
    const MergeResult kind = late_bio_merge(rq, merged);
    if (kind != MergeResult::refused) return kind != MergeResult::none;
  }
  return insert_merge(rq, merged);
}

}  // namespace elevd::sched
