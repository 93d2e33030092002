// SPDX-License-Identifier: Apache-2.0
// SortedMerge: the merging of elevators that keep requests in sector order and in a fifo.
//
// An elevator inherits it (privately, as SortedMerge<Itself, Place>) and befriends it. A Place is
// where the requests that may join each other are; the elevator says of it
//   Place& place_of(rq); bool is_in(rq, place); SortedRequests& order(place); RequestFifo&
//   fifo(place); bool front_merges();
//   void link(rq, before)          into the order, there
//   void merged_away(rq, merged)   it is out of everything (if it was in), nobody's, in `merged`
//   void replaced(rq, by)          the place of `rq` is that of `by` from now on
//   void grown(rq, from, to)       it has these sectors too
//   void moved(rq), changed(rq)    it begins elsewhere; it is longer than it was
//
// Owns:       nothing; a request leaves by unlink_merge().
// Thread:     whoever holds the lock of the elevator.
// Invariants: what is in the hash is in a fifo; so is last_merge_, if there is one.
// See also:   docs/spec/mq-deadline.md section 5, docs/spec/bfq.md section 8.
#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <iterator>
#include <optional>

#include "end_hash.hpp"
#include "merge.hpp"
#include "request.hpp"

namespace elevd::sched {

/// By first sector; within equal ones in the order of insertion.
struct ByStart {
  bool operator()(const Request& a, const Request& b) const { return a.start < b.start; }
  bool operator()(const Request& a, Sector b) const { return a.start < b; }
  bool operator()(Sector a, const Request& b) const { return a < b.start; }
};
using SortedRequests =
    bi::multiset<Request, bi::member_hook<Request, bi::set_member_hook<>, &Request::sort_hook>,
                 bi::compare<ByStart>, bi::constant_time_size<false>>;
/// In the order of deadlines; the deadline of a request is its elevator_word.
using RequestFifo =
    bi::list<Request, bi::member_hook<Request, bi::list_member_hook<>, &Request::fifo_hook>,
             bi::constant_time_size<false>>;

template <class Elevator, class Place>
class SortedMerge {
 protected:
  /// What of `bio` can join what is queued in `place`: first the request that took one last.
  MergeResult merge_bio(Place& place, Bio& bio, RequestList& merged) {
    if (last_merge_ != nullptr && self().is_in(*last_merge_, place)) {
      const MergeResult kind = join(*last_merge_, bio, merged);
      if (kind != MergeResult::none) return kind;
    }
    if (self().nomerges() != 0) return MergeResult::none;
    Request* const before = find_end(place, bio.start);
    if (before != nullptr && merge_kind(*before, bio) == MergeResult::back) {
      return join(*before, bio, merged);
    }
    Request* const behind = find_start(place, bio.end());
    if (behind != nullptr && merge_kind(*behind, bio) == MergeResult::front) {
      return join(*behind, bio, merged);
    }
    return MergeResult::none;
  }

  /// These are going to be inserted: what another CPU changed last comes while the first are.
  void expect(const RequestList& list) {
    for (const Request& rq : list) {
      hash_.prefetch(rq.start);
      hash_.prefetch(rq.end());
    }
  }

  /// What of a request on its way in can join what is queued. Null: `rq` is queued now, or in one
  /// that is; else it is to be put into the order of its place before this one.
  std::optional<SortedRequests::iterator> merge_in(Request& rq, RequestList& merged) {
    if (mergeable(rq) && self().nomerges() != 2) {
      MergeResult kind = MergeResult::refused;
      if ((rq.flags & kRqLookupSkipped) != 0) {
        std::optional<SortedRequests::iterator> position;
        kind = late_merge_bio(rq, merged, position);
        // Who found nobody behind or before it has looked for what insert_merge looks for.
        if (position && kind == MergeResult::none) return position;
      }
      if (kind == MergeResult::refused) kind = insert_merge(rq, merged);
      if (kind != MergeResult::none) return std::nullopt;
    }
    return self().order(self().place_of(rq)).upper_bound(rq);
  }

  /// `rq` is queued, and may be found.
  void link_merge(Request& rq) {
    if (!mergeable(rq)) return;
    hash_.add(rq);
    if (last_merge_ == nullptr) last_merge_ = &rq;
  }

  void unlink_merge(Request& rq) {
    rq.hash_hook.unlink();
    if (last_merge_ == &rq) last_merge_ = nullptr;
  }

  [[nodiscard]] const EndHash& hash() const { return hash_; }
  [[nodiscard]] const Request* last_merge() const { return last_merge_; }

 private:
  [[nodiscard]] Elevator& self() { return static_cast<Elevator&>(*this); }
  [[nodiscard]] static std::int64_t deadline(const Request& rq) {
    return static_cast<std::int64_t>(rq.elevator_word);
  }

  // --- Neighbours -------------------------------------------------------------------------------

  [[nodiscard]] Request* find_end(const Place& place, Sector end) {
    return hash_.find(end, [&](const Request& rq) { return self().is_in(rq, place); });
  }

  /// Null if there is none, or nobody takes one in front.
  [[nodiscard]] Request* find_start(Place& place, Sector start) {
    if (!self().front_merges()) return nullptr;
    SortedRequests& order = self().order(place);
    return begins_at(order, order.lower_bound(start, ByStart{}), start);
  }

  [[nodiscard]] static Request* begins_at(SortedRequests& order, SortedRequests::iterator at,
                                          Sector start) {
    return at == order.end() || at->start != start ? nullptr : &*at;
  }

  /// It refused a neighbour for its size: it is looked for no more.
  void no_more_merges(Request& rq) {
    rq.flags |= kRqNoMerge;
    unlink_merge(rq);
  }

  // --- Request and request ----------------------------------------------------------------------

  /// `rq`, which is queued, takes `next` in (queued, or on its way in), with its place if that is
  /// better.
  [[nodiscard]] bool absorb(Request& rq, Request& next, RequestList& merged) {
    Place& place = self().place_of(rq);
    if (!self().is_in(next, place)) return false;
    const Sector from = next.start;
    const Sector to = next.end();
    if (!try_merge_requests(self().limits(), rq, next)) {
      if ((rq.flags & kRqNoMerge) != 0) no_more_merges(rq);
      return false;
    }
    if (next.fifo_hook.is_linked() && deadline(next) < deadline(rq)) {
      RequestFifo& fifo = self().fifo(place);
      fifo.splice(fifo.iterator_to(next), fifo, fifo.iterator_to(rq));
      inherit(rq, next);
    }
    self().replaced(next, rq);
    self().grown(rq, from, to);
    self().merged_away(next, merged);
    hash_.add(rq);
    last_merge_ = &rq;
    self().changed(rq);
    return true;
  }

  /// `rq`, on its way in, takes the queued `next` in and stands in its place: what a front merge of
  /// its bio would have come to.
  [[nodiscard]] bool put_before(Request& rq, Request& next, RequestList& merged) {
    if (!try_merge_requests(self().limits(), rq, next)) {
      if ((rq.flags & kRqNoMerge) != 0) {
        rq.flags = static_cast<RequestFlags>(rq.flags & ~kRqNoMerge);
        no_more_merges(next);
      }
      return false;
    }
    RequestFifo& fifo = self().fifo(self().place_of(rq));
    fifo.insert(fifo.iterator_to(next), rq);
    inherit(rq, next);
    self().replaced(next, rq);
    self().link(rq, self().order(self().place_of(rq)).upper_bound(rq));
    self().merged_away(next, merged);
    hash_.add(rq);
    last_merge_ = &rq;
    return true;
  }

  static void inherit(Request& rq, const Request& next) {
    rq.elevator_word = next.elevator_word;
    rq.inserted = next.inserted;
  }

  /// After a back merge: the next one in sector order may follow now.
  void grown_at_end(Request& rq, RequestList& merged) {
    SortedRequests& order = self().order(self().place_of(rq));
    const auto next = std::next(order.iterator_to(rq));
    if (next != order.end() && absorb(rq, *next, merged)) return;
    self().changed(rq);
    if (!mergeable(rq)) return;
    hash_.add(rq);
    last_merge_ = &rq;
  }

  /// After a front merge: the one before may reach up to it now; else it has a new place.
  void grown_at_front(Request& rq, RequestList& merged) {
    SortedRequests& order = self().order(self().place_of(rq));
    const auto at = order.iterator_to(rq);
    if (at != order.begin() && absorb(*std::prev(at), rq, merged)) return;
    order.erase(at);
    order.insert(rq);
    last_merge_ = &rq;
    self().moved(rq);
  }

  // --- Bio and request --------------------------------------------------------------------------

  MergeResult join(Request& rq, Bio& bio, RequestList& merged) {
    const MergeResult kind = try_merge(self().limits(), rq, bio);
    if (kind == MergeResult::refused) no_more_merges(rq);
    if (kind == MergeResult::back) {
      self().grown(rq, bio.start, bio.end());
      grown_at_end(rq, merged);
    }
    if (kind == MergeResult::front) grown_at_front(rq, merged);
    return kind;
  }

  // --- At insertion -----------------------------------------------------------------------------

  /// Backward only: `rq` joins what ends where it starts, and so on with what has grown.
  MergeResult insert_merge(Request& rq, RequestList& merged) {
    if (last_merge_ != nullptr && last_merge_->end() == rq.start &&
        absorb(*last_merge_, rq, merged)) {
      return MergeResult::back;
    }
    if (self().nomerges() != 0) return MergeResult::none;
    Place& place = self().place_of(rq);
    Request* grown = &rq;
    while (Request* before = find_end(place, grown->start)) {
      if (!absorb(*before, *grown, merged)) break;
      grown = before;
    }
    return grown == &rq ? MergeResult::none : MergeResult::back;
  }

  /// As `join` of a bio: `rq` is on its way in.
  MergeResult join_request(Request& queued, Request& rq, RequestList& merged) {
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

  /// The lookup of merge_bio for a request whose bio had none, because the lock was contended: the
  /// same tests in the same order. Who may be behind it is looked for on the way to its place.
  MergeResult late_merge_bio(Request& rq, RequestList& merged,
                             std::optional<SortedRequests::iterator>& position) {
    Place& place = self().place_of(rq);
    if (last_merge_ != nullptr && self().is_in(*last_merge_, place)) {
      const MergeResult kind = join_request(*last_merge_, rq, merged);
      if (kind != MergeResult::none) return kind;
    }
    if (self().nomerges() != 0) return MergeResult::none;
    if (Request* const before = find_end(place, rq.start)) {
      const MergeResult kind = join_request(*before, rq, merged);
      if (kind != MergeResult::none) return kind;
    }
    SortedRequests& order = self().order(place);
    const auto next = order.upper_bound(rq);
    position = next;
    if (!self().front_merges()) return MergeResult::none;
    const bool within = next != order.end() && next->start < rq.end();
    Request* const behind = within ? find_start(place, rq.end()) : begins_at(order, next, rq.end());
    return behind != nullptr ? join_request(*behind, rq, merged) : MergeResult::none;
  }

  EndHash hash_;
  Request* last_merge_ = nullptr;
};

}  // namespace elevd::sched
