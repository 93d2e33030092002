// SPDX-License-Identifier: Apache-2.0
// RangeTable: who may write which blocks of a disk while unaligned writes read, modify and write.
//
// Owns:       nothing; links the holds of front requests.
// Thread:     any; a mutex of its own. Used only while a disk is in range mode, off the hot path.
// Invariants: (1) two granted holds never overlap; (2) first come, first served: a hold waits for
//                 every earlier one that overlaps it, granted or not;
//             (3) nobody waits for a range with a tag in hand: ranges come before the gate.
// See also:   docs/architecture.md "Concurrency rules", rule 14; docs/spec/fuse.md section 5.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <mutex>

namespace elevd::daemon {

struct FrontRequest;

/// The part of a front request that the table links.
struct RangeHold {
  boost::intrusive::list_member_hook<> link;
  FrontRequest* request = nullptr;
  std::uint64_t from = 0;  ///< bytes, whole blocks
  std::uint64_t to = 0;
  bool granted = false;

  [[nodiscard]] bool held() const { return link.is_linked(); }
  [[nodiscard]] bool overlaps(const RangeHold& other) const {
    return from < other.to && other.from < to;
  }
};

using HoldList =
    boost::intrusive::list<RangeHold,
                           boost::intrusive::member_hook<
                               RangeHold, boost::intrusive::list_member_hook<>, &RangeHold::link>,
                           boost::intrusive::constant_time_size<false>>;

class RangeTable {
 public:
  /// Enters `hold` (from, to set). True: granted at once; else it will come out of a release().
  [[nodiscard]] bool acquire(RangeHold& hold);

  /// Takes `hold` out and calls `granted(RangeHold&)` for every hold that may go now.
  template <class F>
  void release(RangeHold& hold, F&& granted) {
    const std::lock_guard guard(mutex_);
    const std::uint64_t from = hold.from;
    const std::uint64_t to = hold.to;
    holds_.erase(holds_.iterator_to(hold));
    for (RangeHold& later : holds_) {
      if (later.granted || later.from >= to || from >= later.to || waits(later)) continue;
      later.granted = true;
      granted(later);
    }
  }

  [[nodiscard]] bool empty() {
    const std::lock_guard guard(mutex_);
    return holds_.empty();
  }

 private:
  /// Whether an earlier hold overlaps this one.
  [[nodiscard]] bool waits(const RangeHold& hold) const;

  std::mutex mutex_;
  HoldList holds_;  ///< in order of arrival
};

}  // namespace elevd::daemon
