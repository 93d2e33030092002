// SPDX-License-Identifier: Apache-2.0
#include "scheduler.hpp"

#include <cerrno>

#include "attribute.hpp"
#include "grammar.hpp"
#include "sched/bfq.hpp"
#include "sched/kyber.hpp"
#include "sched/mq_deadline.hpp"

namespace elevd::sysfs {
namespace {

constexpr std::string_view kNone = "none";

template <class Elevator>
std::unique_ptr<sched::Elevator> make() {
  return std::make_unique<Elevator>();
}

constexpr SchedulerType kSchedulers[] = {
    {kNone, {}, nullptr},
    {sched::MqDeadline::kName, "deadline", make<sched::MqDeadline>, mq_deadline_files,
     mq_deadline_debug_files},
    {sched::Kyber::kName,
     {},
     make<sched::Kyber>,
     kyber_files,
     kyber_debug_files,
     kyber_hardware_queue_debug_files},
    {sched::Bfq::kName, {}, make<sched::Bfq>, bfq_files, bfq_debug_files},
};

}  // namespace

std::span<const SchedulerType> available_schedulers() { return kSchedulers; }

std::string_view default_scheduler() { return sched::MqDeadline::kName; }

tl::expected<const SchedulerType*, int> parse_scheduler(std::string_view text,
                                                        std::span<const SchedulerType> schedulers) {
  const std::string_view name = parse_name(text);
  if (name.empty()) return tl::unexpected(EINVAL);
  if (name.starts_with(kNone)) return &schedulers.front();
  for (const SchedulerType& type : schedulers) {
    if (name == type.name || name == type.alias) return &type;
  }
  return tl::unexpected(EINVAL);
}

std::string format_schedulers(std::span<const SchedulerType> schedulers, std::string_view active) {
  std::string line;
  for (const SchedulerType& type : schedulers) {
    const bool is_active = type.name == active;
    if (is_active) line += '[';
    line += type.name;
    if (is_active) line += ']';
    line += ' ';
  }
  line += '\n';
  return line;
}

}  // namespace elevd::sysfs
