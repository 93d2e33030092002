// SPDX-License-Identifier: Apache-2.0
// Rows of a disk's directory: docs/spec/sysfs.md sections 6 and 7.
#include <fmt/format.h>

#include <cerrno>

#include "attribute.hpp"
#include "grammar.hpp"
#include "show.hpp"

namespace elevd::sysfs {
namespace {

/// 17 columns; those of ticks wrap at 32 bits.
std::string show_stat(Disk& disk) {
  const sched::Stats stats = disk.queue->stats(disk.now());
  const auto ticks = [](std::uint64_t ms) { return static_cast<std::uint32_t>(ms); };
  const auto group = [&](sched::StatGroup which) {
    const sched::Stats::Group& counts = stats.groups[static_cast<std::size_t>(which)];
    return fmt::format("{:8} {:8} {:8} {:8}", counts.ios, counts.merges, counts.sectors,
                       ticks(counts.ticks_ms));
  };
  std::uint64_t in_queue_ms = 0;
  for (const sched::Stats::Group& counts : stats.groups) in_queue_ms += counts.ticks_ms;
  const auto& flushes = stats.groups[static_cast<std::size_t>(sched::StatGroup::flush)];
  return fmt::format("{} {} {:8} {:8} {:8} {} {:8} {:8}\n", group(sched::StatGroup::read),
                     group(sched::StatGroup::write), stats.in_flight, ticks(stats.io_ticks_ms),
                     ticks(in_queue_ms), group(sched::StatGroup::discard), flushes.ios,
                     ticks(flushes.ticks_ms));
}

std::string show_inflight(Disk& disk) {
  const sched::Stats stats = disk.queue->stats(disk.now());
  return fmt::format("{:8} {:8}\n", stats.at_driver[0], stats.at_driver[1]);
}

/// Nothing is polled for: a number that would mean something finds no device for it.
Outcome store_events_poll_msecs(Disk&, std::string_view text) {
  const auto ms = parse_s64(text);
  if (!ms || *ms < -1) return Refused{EINVAL};
  return Refused{ENODEV};
}

constexpr Attribute kDiskFiles[] = {
    constant("alignment_offset", "0\n"),
    constant("capability", "0\n"),
    constant("discard_alignment", "0\n"),
    read_only("diskseq", [](Disk& disk) { return line(disk.sequence); }),
    constant("events", "media_change\n"),
    constant("events_async", ""),
    writable_constant("events_poll_msecs", "-1\n", store_events_poll_msecs),
    constant("ext_range", "256\n"),
    constant("hidden", "0\n"),
    read_only("inflight", show_inflight),
    constant("partscan", "0\n"),
    constant("range", "1\n"),
    constant("removable", "0\n"),
    read_only("ro", [](Disk& disk) { return flag(disk.read_only); }),
    read_only("size", [](Disk& disk) { return line(disk.sectors.load()); }),
    read_only("stat", show_stat),
};
static_assert(sorted_by_name(kDiskFiles));

/// The hardware queue: its size does not follow nr_requests.
constexpr Attribute kHardwareQueueFiles[] = {
    read_only("cpu_list", [](Disk& disk) { return line(disk.cpu_list); }),
    constant("nr_reserved_tags", "0\n"),
    read_only("nr_tags", [](Disk& disk) { return line(disk.queue->queue_depth()); }),
};
static_assert(sorted_by_name(kHardwareQueueFiles));

/// What the loop driver shows in its own directory, in ours.
constexpr Attribute kBackingFiles[] = {
    read_only("backing_file", [](Disk& disk) { return line(disk.backing); }),
    read_only("dio", [](Disk& disk) { return flag(disk.direct_io); }),
};
static_assert(sorted_by_name(kBackingFiles));

}  // namespace

std::span<const Attribute> disk_files() { return kDiskFiles; }

std::span<const DirectoryTable> disk_directories() {
  static const DirectoryTable directories[] = {
      {"", kDiskFiles},         {"elevd", kBackingFiles}, {"mq", {}}, {"mq/0", kHardwareQueueFiles},
      {"queue", queue_files()},
  };
  return directories;
}

}  // namespace elevd::sysfs
