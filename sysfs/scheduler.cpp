// SPDX-License-Identifier: Apache-2.0
#include "scheduler.hpp"

#include <cerrno>

#include "grammar.hpp"

namespace elevd::sysfs {
namespace {

constexpr std::string_view kNone = "none";

constexpr SchedulerType kSchedulers[] = {
    {kNone, {}, nullptr},
};

}  // namespace

std::span<const SchedulerType> available_schedulers() { return kSchedulers; }

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
