// SPDX-License-Identifier: Apache-2.0
#include "modelled_device.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <limits>

#include "sched/assertion.hpp"

namespace elevd::daemon {
namespace {

constexpr std::uint64_t kMostReleased = std::numeric_limits<std::uint64_t>::max();

}  // namespace

ModelledDevice::ModelledDevice(const DeviceTiming& timing, std::uint32_t requests)
    : model_(timing) {
  for (std::uint32_t i = 0; i < requests; ++i) {
    all_.push_back(std::make_unique<Held>());
    free_.push_back(all_.back().get());
  }
}

std::optional<sched::Instant> ModelledDevice::add(sched::Request& rq, sched::Instant now) {
  const std::lock_guard guard(mutex_);
  ELEVD_ASSERT(!free_.empty());
  Held& held = *free_.back();
  free_.pop_back();
  held.rq = &rq;
  held.error = 0;
  held.done = false;
  held.due = false;
  held.entry.op = rq.op;
  held.entry.start = rq.start;
  held.entry.length = rq.length;
  held.entry.owner = &held;
  rq.driver_data = &held;
  model_.add(held.entry, now);
  return model_.next_due();
}

bool ModelledDevice::io_done(sched::Request& rq, int error) {
  const std::lock_guard guard(mutex_);
  Held& held = *static_cast<Held*>(rq.driver_data);
  held.done = true;
  held.error = error;
  if (!held.due) return false;
  free_.push_back(&held);
  return true;
}

/// It is due: to be completed now if its I/O is done, else by io_done().
std::optional<ModelledDevice::Finished> ModelledDevice::leave_model(Held& held) {
  held.due = true;
  if (!held.done) return std::nullopt;
  free_.push_back(&held);
  return Finished{held.rq, held.error};
}

/// `release`: one that was released may be among them; cleared when it was.
std::optional<ModelledDevice::Finished> ModelledDevice::next_finished(sched::Instant now,
                                                                      bool& release) {
  for (;;) {
    DeviceEntry* entry = nullptr;
    if (release && released_ != 0) {
      release = false;
      entry = take_released(now);
    }
    if (entry == nullptr) entry = model_.take_due(now);
    if (entry == nullptr) return std::nullopt;
    if (auto finished = leave_model(*static_cast<Held*>(entry->owner))) return finished;
  }
}

/// The oldest one. What is released beyond those that are here is void.
DeviceEntry* ModelledDevice::take_released(sched::Instant now) {
  DeviceEntry* const entry = model_.take_oldest(now);
  if (entry == nullptr) {
    released_ = 0;
  } else {
    --released_;
  }
  if (released_ == 0 && stall_ends_) {
    stall_ends_ = false;
    model_.end_stall(now);
  }
  return entry;
}

int ModelledDevice::command(std::string_view text, sched::Instant now) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  const std::lock_guard guard(mutex_);
  if (text == "stall") {
    model_.stall();
    stall_ends_ = false;
    return 0;
  }
  constexpr std::string_view kRelease = "release ";
  if (!text.starts_with(kRelease) || !model_.stalled()) return EINVAL;
  text.remove_prefix(kRelease.size());
  if (text == "all") {
    released_ = model_.size();
    stall_ends_ = released_ != 0;
    if (!stall_ends_) model_.end_stall(now);
    return 0;
  }
  std::uint64_t n = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (failed != std::errc{} || end != text.data() + text.size() || n == 0) return EINVAL;
  released_ = n > kMostReleased - released_ ? kMostReleased : released_ + n;
  return 0;
}

std::string ModelledDevice::describe() {
  const std::lock_guard guard(mutex_);
  return fmt::format("stalled={}\nat_device={}\n", model_.stalled() ? 1 : 0, model_.size());
}

}  // namespace elevd::daemon
