// SPDX-License-Identifier: Apache-2.0
// EndHash: queued requests by the sector behind their last one, for back merges.
//
// Owns:       nothing; a request is in it by its hash_hook and leaves by unlinking that.
// Thread:     whoever holds the lock of the elevator.
// Invariants: within one end sector the most recently added comes first.
// See also:   docs/spec/mq-deadline.md section 5.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "request.hpp"

namespace elevd::sched {

class EndHash {
 public:
  /// Has what find(`end`) and add() of what ends there look at fetched.
  void prefetch(Sector end) { __builtin_prefetch(&bucket(end), 1); }

  /// Puts `rq` where its end is now; it may be in already.
  void add(Request& rq) {
    rq.hash_hook.unlink();
    bucket(rq.end()).push_front(rq);
  }

  /// The first that ends at `end` and is `wanted(rq)`; null: none.
  template <class F>
  [[nodiscard]] Request* find(Sector end, F&& wanted) {
    for (Request& rq : bucket(end)) {
      if (rq.end() == end && wanted(rq)) return &rq;
    }
    return nullptr;
  }

  template <class F>
  void each(F&& f) const {
    for (const Bucket& entries : buckets_) {
      for (const Request& rq : entries) f(rq);
    }
  }

 private:
  using HashHook = bi::list_member_hook<bi::link_mode<bi::auto_unlink>>;
  using Bucket = bi::list<Request, bi::member_hook<Request, HashHook, &Request::hash_hook>,
                          bi::constant_time_size<false>>;
  static constexpr unsigned kBits = 9;

  [[nodiscard]] Bucket& bucket(Sector end) {
    constexpr std::uint64_t kGolden = 0x61c8864680b583ebU;
    return buckets_[(end.value * kGolden) >> (64U - kBits)];
  }

  std::array<Bucket, 1U << kBits> buckets_;
};

}  // namespace elevd::sched
