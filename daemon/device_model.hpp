// SPDX-License-Identifier: Apache-2.0
// DeviceModel: a device that takes its time: when each request would be done.
//
// Owns:       nothing; links entries whose owner keeps them alive until they are taken or let go.
// Thread:     one at a time.
// Time:       an argument. Due times follow from due times, never from when somebody looks: a
//             request begins when a server became free, however late that is noticed.
// Invariants: (1) requests begin in the order they were added, as soon as a server is free;
//             (2) they are taken in the order they are due, of equals in the order they began;
//             (3) a stalled device serves nothing: what was being served goes back to the front.
// See also:   docs/spec/scenario.md sections 2 and 3 (rules 2, 3); docs/architecture.md "Backings".
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <optional>

#include "sched/bio.hpp"
#include "sched/units.hpp"

namespace elevd::daemon {

/// Operations that can have a service time of their own. A write of zeroes is a write.
enum class ServiceKind : std::uint8_t { read, write, discard, flush };
inline constexpr unsigned kServiceKinds = 4;

[[nodiscard]] constexpr ServiceKind service_kind(sched::Op op) {
  switch (op) {
    case sched::Op::read:
      return ServiceKind::read;
    case sched::Op::discard:
      return ServiceKind::discard;
    case sched::Op::flush:
      return ServiceKind::flush;
    case sched::Op::write:
    case sched::Op::write_zeroes:
      break;
  }
  return ServiceKind::write;
}

struct DeviceTiming {
  sched::Duration service{100'000};  ///< of every request
  std::array<std::optional<sched::Duration>, kServiceKinds> special =
      {};                      ///< of one operation instead
  std::uint32_t parallel = 0;  ///< requests served at once; 0: whatever there are
  /// One head: a request takes `sequential` if it starts where the one served before it ended,
  /// else `random`; a flush takes what it takes without a head, and does not move it.
  bool seek = false;
  sched::Duration sequential{300'000};
  sched::Duration random{3'000'000};
};

/// A request at the device; part of the object that stands for it.
struct DeviceEntry {
  sched::Op op = sched::Op::read;
  sched::Sector start;
  sched::Sectors length;
  void* owner = nullptr;  ///< the caller's
  // The model's own.
  sched::Instant added;
  sched::Instant due;
  std::uint64_t added_number = 0;
  std::uint64_t began_number = 0;
  boost::intrusive::list_member_hook<> waiting_hook;
  boost::intrusive::set_member_hook<> served_hook;
};

class DeviceModel {
 public:
  explicit DeviceModel(const DeviceTiming& timing) : timing_(timing) {}
  ~DeviceModel();
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  /// For requests that begin from now on.
  void set_timing(const DeviceTiming& timing, sched::Instant now);
  [[nodiscard]] const DeviceTiming& timing() const { return timing_; }

  void stall();
  void end_stall(sched::Instant now);
  [[nodiscard]] bool stalled() const { return stalled_; }

  /// `entry` (op, start, length set) arrives at the device.
  void add(DeviceEntry& entry, sched::Instant now);
  /// When the next one is done; none: nothing is being served.
  [[nodiscard]] std::optional<sched::Instant> next_due() const;
  /// The next one that is done by `now`, or null. The one that follows it begins.
  [[nodiscard]] DeviceEntry* take_due(sched::Instant now);
  /// Takes the oldest one, done or not, or null.
  [[nodiscard]] DeviceEntry* take_oldest(sched::Instant now);
  /// How many are at the device.
  [[nodiscard]] std::size_t size() const { return served_.size() + waiting_.size(); }

 private:
  struct ByDue {
    bool operator()(const DeviceEntry& a, const DeviceEntry& b) const {
      return a.due != b.due ? a.due < b.due : a.began_number < b.began_number;
    }
  };
  using Served = boost::intrusive::set<
      DeviceEntry,
      boost::intrusive::member_hook<DeviceEntry, boost::intrusive::set_member_hook<>,
                                    &DeviceEntry::served_hook>,
      boost::intrusive::compare<ByDue>>;
  using Waiting = boost::intrusive::list<
      DeviceEntry, boost::intrusive::member_hook<DeviceEntry, boost::intrusive::list_member_hook<>,
                                                 &DeviceEntry::waiting_hook>>;

  [[nodiscard]] bool has_room() const;
  [[nodiscard]] sched::Duration service_of(const DeviceEntry& entry);
  void begin_waiting(sched::Instant free_at);

  DeviceTiming timing_;
  bool stalled_ = false;
  Served served_;
  Waiting waiting_;
  std::uint64_t added_ = 0;
  std::uint64_t began_ = 0;
  std::optional<sched::Sector> head_;  ///< where the one served before ended
};

}  // namespace elevd::daemon
