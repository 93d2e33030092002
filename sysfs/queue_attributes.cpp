// SPDX-License-Identifier: Apache-2.0
// Rows of queue/: docs/spec/sysfs.md section 3.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "attribute.hpp"
#include "grammar.hpp"
#include "show.hpp"
#include "tree.hpp"

namespace elevd::sysfs {
namespace {

using sched::Bytes;
using sched::Limits;
using sched::Sectors;

constexpr std::uint32_t kPageKb = 4;
constexpr std::uint32_t kBaseReadAheadKb = 128;

std::uint64_t kilobytes(Sectors sectors) { return sectors.value / 2; }

/// A store that needs nothing frozen: `set` gets what `parse` made of the text.
template <class Parse, class Set>
Outcome store_with(Parse parse, std::string_view text, Set set) {
  const auto value = parse(text);
  if (!value) return Refused{value.error()};
  set(*value);
  return Done{};
}

/// A Change of the limits. They are read inside of it: a change that was applied meanwhile stays.
template <class Edit>
Outcome change_limits(Disk& disk, Edit edit) {
  return Change{ChangeKind::limits,
                [&disk, edit = std::move(edit)] {
                  Limits limits = disk.queue->limits();
                  edit(limits);
                  disk.queue->set_limits(limits);
                  disk.read_ahead_kb = default_read_ahead_kb(limits);
                  return 0;
                },
                {}};
}

// --- scheduler and depths ------------------------------------------------------------------------

std::string show_scheduler(Disk& disk) {
  return format_schedulers(disk.schedulers, disk.queue->scheduler());
}

/// What a switch carries from one step to the next: the new elevator, then the old one.
struct Switch {
  sched::RequestQueue::Attachment attachment;
  bool done = false;
};

/// A valid name always is a Change, also the active one: it stands in line behind a switch that is
/// going on, and the last one written wins. None on none runs in full, the others are left alone.
Outcome store_scheduler(Disk& disk, std::string_view text) {
  const auto parsed = parse_scheduler(text, disk.schedulers);
  if (!parsed) return Refused{parsed.error()};
  const SchedulerType* const type = *parsed;
  const auto going = std::make_shared<Switch>();
  const auto prepare = [&disk, type, going] {
    if (type->make == nullptr || disk.queue->scheduler() == type->name) return 0;
    try {
      going->attachment = disk.queue->prepare(type->make());
    } catch (const std::bad_alloc&) {
      return ENOMEM;
    }
    return 0;
  };
  Change change;
  change.kind = ChangeKind::scheduler;
  change.prepare = prepare;
  change.apply = [&disk, type, going, prepare] {
    if (type->make != nullptr && disk.queue->scheduler() == type->name) return 0;
    if (type->make != nullptr && going->attachment.elevator == nullptr) {
      if (const int error = prepare(); error != 0) return error;
    }
    going->attachment = disk.queue->attach(std::move(going->attachment));
    going->done = true;
    return 0;
  };
  change.publish = [&disk, type, going] {
    if (!going->done) return;
    going->attachment = {};
    if (disk.tree != nullptr) disk.tree->publish_scheduler(disk.name, *type);
  };
  return change;
}

Outcome store_nr_requests(Disk& disk, std::string_view text) {
  const auto written = parse_u32(text);
  if (!written) return Refused{written.error()};
  const std::uint32_t shown = disk.queue->nr_requests();
  const std::uint32_t wanted = std::max(*written, sched::kMinRequests);
  if (*written == shown || wanted == shown) return Done{};
  if (wanted > disk.queue->max_requests()) return Refused{EINVAL};
  const auto tags = std::make_shared<std::unique_ptr<sched::TagMap>>();
  const auto prepare = [&disk, wanted, tags] {
    try {
      *tags = disk.queue->prepare_requests(wanted);
    } catch (const std::bad_alloc&) {
      return ENOMEM;
    }
    return 0;
  };
  Change change;
  change.kind = ChangeKind::depth;
  change.prepare = prepare;
  change.apply = [&disk, wanted, tags, prepare] {
    if (wanted > disk.queue->max_requests()) return EINVAL;
    if (*tags == nullptr) {
      if (const int error = prepare(); error != 0) return error;
    }
    disk.queue->set_nr_requests(wanted, std::move(*tags));
    return 0;
  };
  return change;
}

/// Only a scheduler has an asynchronous depth of its own.
Outcome store_async_depth(Disk& disk, std::string_view text) {
  const auto written = parse_u32(text);
  if (!written) return Refused{written.error()};
  if (*written == 0 || disk.queue->scheduler() == disk.schedulers.front().name) {
    return Refused{EINVAL};
  }
  Change change;
  change.kind = ChangeKind::depth;
  change.apply = [&disk, wanted = *written] {
    return disk.queue->set_async_depth(wanted) ? 0 : EINVAL;
  };
  return change;
}

// --- limits --------------------------------------------------------------------------------------

Sectors default_max_sectors(const Limits& limits) {
  return std::min(limits.max_hw_sectors, sched::kMaxDefaultSectors);
}

Outcome store_max_sectors_kb(Disk& disk, std::string_view text) {
  const auto kb = parse_u32(text);
  if (!kb) return Refused{kb.error()};
  if (*kb != 0 && *kb < kPageKb) return Refused{EINVAL};
  return change_limits(disk, [wanted = Sectors{std::uint64_t{*kb} * 2}](Limits& limits) {
    limits.max_sectors =
        wanted.value == 0 ? default_max_sectors(limits) : std::min(wanted, limits.max_hw_sectors);
  });
}

bool discard_on(const Limits& limits) { return limits.max_discard.value != 0; }

std::string show_discard_granularity(Disk& disk) {
  const Limits limits = disk.queue->limits();
  return line(discard_on(limits) ? limits.discard_granularity.value : 0);
}

/// 0 turns discard off; the granularity is kept, so that it can be turned on again (a decided
/// difference from the kernel).
Outcome store_discard_max_bytes(Disk& disk, std::string_view text) {
  const auto bytes = parse_u32(text);
  if (!bytes) return Refused{bytes.error()};
  const Limits limits = disk.queue->limits();
  const std::uint64_t granularity = limits.discard_granularity.value;
  const bool whole = granularity != 0 && *bytes % granularity == 0;
  if (*bytes != 0 && (!whole || limits.max_hw_discard.value == 0)) return Refused{EINVAL};
  return change_limits(disk, [wanted = Sectors{*bytes / sched::kSectorBytes}](Limits& now) {
    now.max_discard = std::min(wanted, now.max_hw_discard);
  });
}

/// There is no hardware that unmaps by writing zeroes: 0 is the only value.
Outcome store_write_zeroes_unmap(Disk&, std::string_view text) {
  const auto bytes = parse_u32(text);
  if (!bytes) return Refused{bytes.error()};
  if (*bytes != 0) return Refused{EINVAL};
  return Done{};
}

std::string show_write_cache(Disk& disk) {
  return disk.queue->limits().write_back ? "write back\n" : "write through\n";
}

Outcome store_write_cache(Disk& disk, std::string_view text) {
  static constexpr std::string_view kKeywords[] = {"write back", "write through", "none"};
  const auto keyword = parse_prefix(text, kKeywords);
  if (!keyword) return Refused{keyword.error()};
  const bool on = *keyword == 0 && disk.volatile_cache;
  return change_limits(disk, [on](Limits& limits) { limits.write_back = on; });
}

Outcome store_rotational(Disk& disk, std::string_view text) {
  const auto on = parse_bool(text);
  if (!on) return Refused{on.error()};
  return change_limits(disk, [on = *on](Limits& limits) { limits.rotational = on; });
}

// --- what changes at once ------------------------------------------------------------------------

Outcome store_nomerges(Disk& disk, std::string_view text) {
  return store_with(parse_u32, text, [&](std::uint32_t value) {
    disk.queue->set_nomerges(value == 0 || value == 2 ? value : 1);
  });
}

Outcome store_iostats(Disk& disk, std::string_view text) {
  return store_with(parse_bool, text, [&](bool on) { disk.queue->set_iostats(on); });
}

/// Rounded down to whole pages.
Outcome store_read_ahead_kb(Disk& disk, std::string_view text) {
  return store_with(parse_u32, text,
                    [&](std::uint32_t kb) { disk.read_ahead_kb = kb - kb % kPageKb; });
}

/// Numbers that mean nothing are taken and ignored.
Outcome store_rq_affinity(Disk& disk, std::string_view text) {
  return store_with(parse_u32, text, [&](std::uint32_t value) {
    if (value <= 2) disk.rq_affinity = value;
  });
}

Outcome store_stable_writes(Disk& disk, std::string_view text) {
  return store_with(parse_bool, text, [&](bool on) { disk.stable_writes = on; });
}

Outcome store_add_random(Disk& disk, std::string_view text) {
  return store_with(parse_bool, text, [&](bool on) { disk.add_random = on; });
}

Outcome store_iostats_passthrough(Disk& disk, std::string_view text) {
  return store_with(parse_bool, text, [&](bool on) { disk.iostats_passthrough = on; });
}

/// There are no poll queues.
Outcome store_io_poll(Disk&, std::string_view) { return Refused{EINVAL}; }

Outcome store_and_ignore(Disk&, std::string_view) { return Done{}; }

// --- the table -----------------------------------------------------------------------------------

/// A row that shows one member of the limits.
template <auto Member>
constexpr Attribute limit(std::string_view name) {
  return read_only(name, [](Disk& disk) {
    const auto value = disk.queue->limits().*Member;
    if constexpr (std::is_same_v<decltype(value), const Bytes>) return line(value.value);
    if constexpr (std::is_same_v<decltype(value), const std::uint32_t>) return line(value);
  });
}

/// The same for a number of sectors, shown in bytes.
template <Sectors Limits::*Member>
constexpr Attribute limit_bytes(std::string_view name) {
  return read_only(name,
                   [](Disk& disk) { return line((disk.queue->limits().*Member).bytes().value); });
}

constexpr Attribute kQueueFiles[] = {
    read_write(
        "add_random", [](Disk& disk) { return flag(disk.add_random); }, store_add_random),
    read_write(
        "async_depth", [](Disk& disk) { return line(disk.queue->async_depth()); },
        store_async_depth),
    constant("atomic_write_boundary_bytes", "0\n"),
    constant("atomic_write_max_bytes", "0\n"),
    constant("atomic_write_unit_max_bytes", "0\n"),
    constant("atomic_write_unit_min_bytes", "0\n"),
    read_only("chunk_sectors", [](Disk& disk) { return line(disk.queue->limits().chunk.value); }),
    constant("dax", "0\n"),
    read_only("discard_granularity", show_discard_granularity),
    read_write(
        "discard_max_bytes",
        [](Disk& disk) { return line(disk.queue->limits().max_discard.bytes().value); },
        store_discard_max_bytes),
    limit_bytes<&Limits::max_hw_discard>("discard_max_hw_bytes"),
    constant("discard_zeroes_data", "0\n"),
    constant("dma_alignment", "511\n"),
    read_only("fua", [](Disk& disk) { return flag(disk.queue->limits().fua); }),
    limit<&Limits::logical_block>("hw_sector_size"),
    writable_constant("io_poll", "0\n", store_io_poll),
    writable_constant("io_poll_delay", "-1\n", store_and_ignore),
    read_write(
        "iostats", [](Disk& disk) { return flag(disk.queue->iostats()); }, store_iostats),
    read_write(
        "iostats_passthrough", [](Disk& disk) { return flag(disk.iostats_passthrough); },
        store_iostats_passthrough),
    limit<&Limits::logical_block>("logical_block_size"),
    constant("max_discard_segments", "1\n"),
    read_only("max_hw_sectors_kb",
              [](Disk& disk) { return line(kilobytes(disk.queue->limits().max_hw_sectors)); }),
    constant("max_integrity_segments", "0\n"),
    read_write(
        "max_sectors_kb",
        [](Disk& disk) { return line(kilobytes(disk.queue->limits().max_sectors)); },
        store_max_sectors_kb),
    limit<&Limits::max_segment_size>("max_segment_size"),
    limit<&Limits::max_segments>("max_segments"),
    constant("max_write_streams", "0\n"),
    limit<&Limits::io_min>("minimum_io_size"),
    read_write(
        "nomerges", [](Disk& disk) { return line(disk.queue->nomerges()); }, store_nomerges),
    read_write(
        "nr_requests", [](Disk& disk) { return line(disk.queue->nr_requests()); },
        store_nr_requests),
    constant("nr_zones", "0\n"),
    limit<&Limits::io_opt>("optimal_io_size"),
    limit<&Limits::physical_block>("physical_block_size"),
    read_write(
        "read_ahead_kb", [](Disk& disk) { return line(disk.read_ahead_kb.load()); },
        store_read_ahead_kb),
    read_write(
        "rotational", [](Disk& disk) { return flag(disk.queue->limits().rotational); },
        store_rotational),
    read_write(
        "rq_affinity", [](Disk& disk) { return line(disk.rq_affinity.load()); }, store_rq_affinity),
    read_write("scheduler", show_scheduler, store_scheduler),
    read_write(
        "stable_writes", [](Disk& disk) { return flag(disk.stable_writes); }, store_stable_writes),
    constant("virt_boundary_mask", "0\n"),
    read_write("write_cache", show_write_cache, store_write_cache),
    constant("write_same_max_bytes", "0\n"),
    constant("write_stream_granularity", "0\n"),
    limit_bytes<&Limits::max_write_zeroes>("write_zeroes_max_bytes"),
    writable_constant("write_zeroes_unmap_max_bytes", "0\n", store_write_zeroes_unmap),
    constant("write_zeroes_unmap_max_hw_bytes", "0\n"),
    constant("zone_append_max_bytes", "0\n"),
    constant("zone_write_granularity", "0\n"),
    constant("zoned", "none\n"),
};
static_assert(sorted_by_name(kQueueFiles));

}  // namespace

std::uint32_t default_read_ahead_kb(const Limits& limits) {
  std::uint64_t kb = limits.io_opt.value * 2 / 1024;
  if (kb == 0 && limits.rotational) kb = kilobytes(limits.max_sectors) * 2;
  const std::uint64_t most = std::numeric_limits<std::uint32_t>::max() & ~(kPageKb - 1);
  kb = std::clamp<std::uint64_t>(kb, kBaseReadAheadKb, most);
  return static_cast<std::uint32_t>(kb - kb % kPageKb);
}

std::span<const Attribute> queue_files() { return kQueueFiles; }

}  // namespace elevd::sysfs
