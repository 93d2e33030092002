// SPDX-License-Identifier: Apache-2.0
// Rows of a disk's debug directory: docs/spec/sysfs.md section 8, and `merge` and `device`, which
// are ours.
#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <vector>

#include "attribute.hpp"
#include "grammar.hpp"
#include "map_lines.hpp"
#include "request_line.hpp"

namespace elevd::sysfs {
namespace {

using sched::MergePoint;

std::string show_state(Disk& disk) {
  const sched::RequestQueue& queue = *disk.queue;
  std::string text = "SAME_COMP";
  if (queue.nomerges() == 2) text += "|NOMERGES";
  if (queue.nomerges() == 1) text += "|NOXMERGES";
  text += "|INIT_DONE|REGISTERED";
  if (queue.quiesced()) text += "|QUIESCED";
  return text + "\n";
}

/// No queue is ever stopped, so `start` is `run`; the requeue list is always empty, so `kick` does
/// nothing.
Outcome store_state(Disk& disk, std::string_view text) {
  const std::string_view command = parse_name(text);
  if (command != "run" && command != "start" && command != "kick") return Refused{EINVAL};
  if (command != "kick" && disk.run_queue) disk.run_queue();
  return Done{};
}

/// Where merges were tried, left out because the elevator was contended, and made.
std::string show_merge(Disk& disk) {
  const sched::Stats stats = disk.queue->stats(disk.now());
  const auto attempts = [&](MergePoint at) {
    return stats.merge_attempts[static_cast<unsigned>(at)];
  };
  const auto hits = [&](MergePoint at) { return stats.merge_hits[static_cast<unsigned>(at)]; };
  std::string text =
      fmt::format("plug attempts={} hits={}\n", attempts(MergePoint::plug), hits(MergePoint::plug));
  text += fmt::format("software_queue attempts={} hits={}\n", attempts(MergePoint::software_queue),
                      hits(MergePoint::software_queue));
  text += fmt::format("bio_merge attempts={} skips={} hits={}\n", attempts(MergePoint::bio_merge),
                      stats.merge_skips, hits(MergePoint::bio_merge));
  text += fmt::format("insert attempts={} hits={}\n", attempts(MergePoint::insert),
                      hits(MergePoint::insert));
  text += fmt::format("request hits={}\n", hits(MergePoint::request));
  return text;
}

std::string format_tags(const sched::TagMapView& view) {
  if (view.depth == 0) return {};
  return fmt::format("nr_tags={}\nnr_reserved_tags=0\nactive_queues=0\n\nbitmap_tags:\n",
                     view.depth) +
         format_map(view);
}

/// 16 bytes a line, in groups of two.
std::string format_bitmap(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 16 == 0) text += fmt::format("{}{:08x}:", i == 0 ? "" : "\n", i);
    if (i % 2 == 0) text += ' ';
    text += fmt::format("{:02x}", bytes[i]);
  }
  if (!text.empty()) text += '\n';
  return text;
}

/// Which software queues hold something: a bit for each worker.
std::string show_context_map(Disk& disk) {
  std::vector<std::uint8_t> bytes((disk.queue->workers() + 7) / 8);
  std::uint64_t pending = disk.queue->software_pending();
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(pending);
    pending >>= 8U;
  }
  return format_bitmap(bytes);
}

constexpr Attribute kDebugFiles[] = {
    debug_file("merge", show_merge),
    debug_file("requeue_list", [](Disk&) { return std::string(); }),
    debug_command("state", show_state, store_state),
};
static_assert(sorted_by_name(kDebugFiles));

constexpr Attribute kHardwareQueueDebugFiles[] = {
    debug_file("active", [](Disk&) { return std::string("0\n"); }),
    debug_file("busy", [](Disk& disk) { return format_requests(disk.queue->view_busy()); }),
    debug_file("ctx_map", show_context_map),
    debug_file("dispatch", [](Disk& disk) { return format_requests(disk.queue->view_residual()); }),
    debug_file("dispatch_busy",
               [](Disk& disk) { return fmt::format("{}\n", disk.queue->dispatch_busy()); }),
    debug_file("flags", [](Disk&) { return std::string("STACKING\n"); }),
    debug_file("sched_tags", [](Disk& disk) { return format_tags(disk.queue->view_sched_tags()); }),
    debug_file("sched_tags_bitmap",
               [](Disk& disk) { return format_bitmap(disk.queue->view_sched_tags().bits); }),
    debug_file("state",
               [](Disk& disk) {
                 return std::string(disk.queue->restart_marked() ? "SCHED_RESTART\n" : "\n");
               }),
    debug_file("tags", [](Disk& disk) { return format_tags(disk.queue->view_hardware_tags()); }),
    debug_file("tags_bitmap",
               [](Disk& disk) { return format_bitmap(disk.queue->view_hardware_tags().bits); }),
    debug_file("type", [](Disk&) { return std::string("default\n"); }),
};
static_assert(sorted_by_name(kHardwareQueueDebugFiles));

/// `stall`, `release N`, `release all`: docs/spec/scenario.md section 2.
constexpr Attribute kModelledDeviceFiles[] = {
    debug_command(
        "device", [](Disk& disk) { return disk.device_state(); },
        [](Disk& disk, std::string_view text) -> Outcome {
          if (const int error = disk.device_command(text); error != 0) return Refused{error};
          return Done{};
        }),
};

/// A disk has one kind of hardware queue, so the lists of the other two are empty.
constexpr Attribute kSoftwareQueueDebugFiles[] = {
    worker_debug_file("default_rq_list",
                      [](Disk& disk, unsigned worker) {
                        return format_requests(disk.queue->view_software(worker));
                      }),
    worker_debug_file("poll_rq_list", [](Disk&, unsigned) { return std::string(); }),
    worker_debug_file("read_rq_list", [](Disk&, unsigned) { return std::string(); }),
};
static_assert(sorted_by_name(kSoftwareQueueDebugFiles));

constexpr DirectoryTable kDebugDirectories[] = {
    {"", kDebugFiles},
    {"hctx0", kHardwareQueueDebugFiles},
    {"hctx0/cpu", kSoftwareQueueDebugFiles, true},
};

}  // namespace

std::span<const DirectoryTable> debug_directories() { return kDebugDirectories; }
std::span<const Attribute> modelled_device_debug_files() { return kModelledDeviceFiles; }

}  // namespace elevd::sysfs
