// SPDX-License-Identifier: Apache-2.0
#include "device_model.hpp"

#include <algorithm>

#include "sched/assertion.hpp"

namespace elevd::daemon {

using sched::Duration;
using sched::Instant;

DeviceModel::~DeviceModel() { ELEVD_ASSERT(served_.empty() && waiting_.empty()); }

void DeviceModel::set_timing(const DeviceTiming& timing, Instant now) {
  timing_ = timing;
  begin_waiting(now);
}

void DeviceModel::stall() {
  stalled_ = true;
  while (!served_.empty()) {
    DeviceEntry& entry = *served_.begin();
    served_.erase(served_.begin());
    const auto later = std::find_if(
        waiting_.begin(), waiting_.end(),
        [&entry](const DeviceEntry& other) { return other.added_number > entry.added_number; });
    waiting_.insert(later, entry);
  }
}

void DeviceModel::end_stall(Instant now) {
  stalled_ = false;
  begin_waiting(now);
}

void DeviceModel::add(DeviceEntry& entry, Instant now) {
  entry.added = now;
  entry.added_number = added_++;
  waiting_.push_back(entry);
  begin_waiting(now);
}

std::optional<Instant> DeviceModel::next_due() const {
  if (served_.empty()) return std::nullopt;
  return served_.begin()->due;
}

DeviceEntry* DeviceModel::take_due(Instant now) {
  if (served_.empty() || now < served_.begin()->due) return nullptr;
  DeviceEntry& entry = *served_.begin();
  served_.erase(served_.begin());
  begin_waiting(entry.due);
  return &entry;
}

DeviceEntry* DeviceModel::take_oldest(Instant now) {
  DeviceEntry* oldest = waiting_.empty() ? nullptr : &waiting_.front();
  for (DeviceEntry& entry : served_) {
    if (oldest == nullptr || entry.added_number < oldest->added_number) oldest = &entry;
  }
  if (oldest == nullptr) return nullptr;
  if (oldest->served_hook.is_linked()) {
    served_.erase(served_.iterator_to(*oldest));
  } else {
    waiting_.erase(waiting_.iterator_to(*oldest));
    head_ = oldest->start + oldest->length;
  }
  begin_waiting(now);
  return oldest;
}

bool DeviceModel::has_room() const {
  if (stalled_) return false;
  const std::size_t most = timing_.seek ? 1 : timing_.parallel;
  return most == 0 || served_.size() < most;
}

Duration DeviceModel::service_of(const DeviceEntry& entry) {
  const auto special = timing_.special[static_cast<unsigned>(service_kind(entry.op))];
  if (entry.op == sched::Op::flush) return special.value_or(timing_.service);
  const bool sequential = head_ == entry.start;
  head_ = entry.start + entry.length;
  if (timing_.seek) return sequential ? timing_.sequential : timing_.random;
  return special.value_or(timing_.service);
}

/// A server became free at `free_at`; nothing begins before it arrived.
void DeviceModel::begin_waiting(Instant free_at) {
  while (!waiting_.empty() && has_room()) {
    DeviceEntry& entry = waiting_.front();
    waiting_.pop_front();
    entry.began_number = began_++;
    entry.due = std::max(free_at, entry.added) + service_of(entry);
    served_.insert(entry);
  }
}

}  // namespace elevd::daemon
