// SPDX-License-Identifier: Apache-2.0
// Scheduler: the names that queue/scheduler shows and takes.
//
// Owns:       nothing; a constant table.
// Thread:     any.
// Invariants: the first entry is "none"; order is that of the file.
// See also:   docs/spec/elevator-switch.md section 1.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "sched/elevator.hpp"

namespace elevd::sysfs {

struct Attribute;

struct SchedulerType {
  std::string_view name;
  std::string_view alias;  ///< a second name that is taken, not shown; empty: there is none
  std::unique_ptr<sched::Elevator> (*make)() = nullptr;   ///< null for "none" only
  std::span<const Attribute> (*files)() = nullptr;        ///< of queue/iosched; null: it has none
  std::span<const Attribute> (*debug_files)() = nullptr;  ///< of sched/ in the debug tree; likewise
  /// Of hctx0/sched/ there; likewise.
  std::span<const Attribute> (*hardware_queue_debug_files)() = nullptr;
};

/// Every scheduler that this build has.
[[nodiscard]] std::span<const SchedulerType> available_schedulers();

/// What a disk starts with when nobody says otherwise: it has one hardware queue, so mq-deadline
/// (docs/spec/elevator-switch.md section 7).
[[nodiscard]] std::string_view default_scheduler();

/// The entry that `text` names, by the rules of the kernel with all their quirks: 15 bytes, and
/// whatever begins with "none" is none. EINVAL: there is no such scheduler.
[[nodiscard]] tl::expected<const SchedulerType*, int> parse_scheduler(
    std::string_view text, std::span<const SchedulerType> schedulers);

/// "none [mq-deadline] kyber \n": a blank after every name, the active one in brackets.
[[nodiscard]] std::string format_schedulers(std::span<const SchedulerType> schedulers,
                                            std::string_view active);

}  // namespace elevd::sysfs
