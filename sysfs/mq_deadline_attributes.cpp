// SPDX-License-Identifier: Apache-2.0
// Files of mq-deadline: tunables (docs/spec/mq-deadline.md section 9) and what its debug directory
// shows (section 10).
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <limits>
#include <optional>
#include <vector>

#include "attribute.hpp"
#include "grammar.hpp"
#include "request_line.hpp"
#include "sched/mq_deadline.hpp"

namespace elevd::sysfs {
namespace {

using sched::MqDeadline;
using Tunables = sched::MqDeadlineTunables;

constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();

/// What `use` makes of the elevator, under its lock; ENODEV if it is another one by now.
template <class Use>
auto with_deadline(Disk& disk, Use use) {
  using Value = decltype(use(std::declval<MqDeadline&>()));
  return disk.queue->with_elevator([&](sched::Elevator* elevator) -> tl::expected<Value, int> {
    auto* const deadline = dynamic_cast<MqDeadline*>(elevator);
    if (deadline == nullptr) return tl::unexpected(ENODEV);
    return use(*deadline);
  });
}

template <std::int32_t Tunables::*Member>
Shown show_tunable(Disk& disk) {
  return with_deadline(disk, [](MqDeadline& deadline) { return deadline.tunables().*Member; })
      .map([](std::int32_t value) { return fmt::format("{}\n", value); });
}

template <std::int32_t Tunables::*Member, std::int32_t Low, std::int32_t High>
Outcome store_tunable(Disk& disk, std::string_view text) {
  const auto value = parse_int0(text, Low, High);
  if (!value) return Refused{value.error()};
  const auto stored = with_deadline(
      disk, [&](MqDeadline& deadline) { return deadline.tunables().*Member = *value; });
  if (!stored) return Refused{stored.error()};
  // What the new value allows may leave now; nobody else would ask for it.
  if (disk.run_queue) disk.run_queue();
  return Done{};
}

template <std::int32_t Tunables::*Member, std::int32_t Low, std::int32_t High>
constexpr Attribute row(std::string_view name) {
  return tunable(name, show_tunable<Member>, store_tunable<Member, Low, High>);
}

constexpr Attribute kFiles[] = {
    row<&Tunables::fifo_batch, 0, kHighest>("fifo_batch"),
    row<&Tunables::front_merges, 0, 1>("front_merges"),
    row<&Tunables::prio_aging_expire_ms, 0, kHighest>("prio_aging_expire"),
    row<&Tunables::read_expire_ms, 0, kHighest>("read_expire"),
    row<&Tunables::write_expire_ms, 0, kHighest>("write_expire"),
    row<&Tunables::writes_starved, kLowest, kHighest>("writes_starved"),
};
static_assert(sorted_by_name(kFiles));

// --- debug ---------------------------------------------------------------------------------------

template <class List>
std::vector<sched::RequestView> views(const List& list) {
  std::vector<sched::RequestView> copies;
  for (const sched::Request& rq : list) copies.push_back(sched::view_of(rq));
  return copies;
}

Shown format_copies(const tl::expected<std::vector<sched::RequestView>, int>& copies) {
  if (!copies) return tl::unexpected(copies.error());
  return format_requests(*copies);
}

template <unsigned Class, unsigned Direction>
Shown show_fifo(Disk& disk) {
  return format_copies(with_deadline(
      disk, [](MqDeadline& deadline) { return views(deadline.fifo(Class, Direction)); }));
}

template <unsigned Class, unsigned Direction>
Shown show_next(Disk& disk) {
  return format_copies(with_deadline(disk, [](MqDeadline& deadline) {
    std::vector<sched::RequestView> copy;
    const sched::Request* next = deadline.next_request(Class, Direction);
    if (next != nullptr) copy.push_back(sched::view_of(*next));
    return copy;
  }));
}

Shown show_dispatch(Disk& disk) {
  return format_copies(
      with_deadline(disk, [](MqDeadline& deadline) { return views(deadline.dispatch_list()); }));
}

Shown show_number(Disk& disk, std::uint32_t (MqDeadline::*number)() const) {
  return with_deadline(disk, [&](MqDeadline& deadline) { return (deadline.*number)(); })
      .map([](std::uint32_t value) { return fmt::format("{}\n", value); });
}

/// "RT BE IDLE".
Shown show_classes(Disk& disk, std::uint32_t (MqDeadline::*number)(unsigned) const) {
  return with_deadline(disk,
                       [&](MqDeadline& deadline) {
                         return std::array{(deadline.*number)(0), (deadline.*number)(1),
                                           (deadline.*number)(2)};
                       })
      .map([](const std::array<std::uint32_t, MqDeadline::kClasses>& values) {
        return fmt::format("{} {} {}\n", values[0], values[1], values[2]);
      });
}

constexpr Attribute kMqDeadlineDebugFiles[] = {
    scheduler_debug_file("batching",
                         [](Disk& disk) { return show_number(disk, &MqDeadline::batching); }),
    scheduler_debug_file("dispatch", show_dispatch),
    scheduler_debug_file(
        "owned_by_driver",
        [](Disk& disk) { return show_classes(disk, &MqDeadline::owned_by_driver); }),
    scheduler_debug_file("queued",
                         [](Disk& disk) { return show_classes(disk, &MqDeadline::queued); }),
    scheduler_debug_file("read0_fifo_list", show_fifo<0, 0>),
    scheduler_debug_file("read0_next_rq", show_next<0, 0>),
    scheduler_debug_file("read1_fifo_list", show_fifo<1, 0>),
    scheduler_debug_file("read1_next_rq", show_next<1, 0>),
    scheduler_debug_file("read2_fifo_list", show_fifo<2, 0>),
    scheduler_debug_file("read2_next_rq", show_next<2, 0>),
    scheduler_debug_file("starved",
                         [](Disk& disk) { return show_number(disk, &MqDeadline::starved); }),
    scheduler_debug_file("write0_fifo_list", show_fifo<0, 1>),
    scheduler_debug_file("write0_next_rq", show_next<0, 1>),
    scheduler_debug_file("write1_fifo_list", show_fifo<1, 1>),
    scheduler_debug_file("write1_next_rq", show_next<1, 1>),
    scheduler_debug_file("write2_fifo_list", show_fifo<2, 1>),
    scheduler_debug_file("write2_next_rq", show_next<2, 1>),
};
static_assert(sorted_by_name(kMqDeadlineDebugFiles));

}  // namespace

std::span<const Attribute> mq_deadline_files() { return kFiles; }
std::span<const Attribute> mq_deadline_debug_files() { return kMqDeadlineDebugFiles; }

}  // namespace elevd::sysfs
