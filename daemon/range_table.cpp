// SPDX-License-Identifier: Apache-2.0
#include "range_table.hpp"

namespace elevd::daemon {

bool RangeTable::waits(const RangeHold& hold) const {
  for (const RangeHold& earlier : holds_) {
    if (&earlier == &hold) return false;
    if (earlier.overlaps(hold)) return true;
  }
  return false;
}

bool RangeTable::acquire(RangeHold& hold) {
  const std::lock_guard guard(mutex_);
  holds_.push_back(hold);
  hold.granted = !waits(hold);
  return hold.granted;
}

}  // namespace elevd::daemon
