// SPDX-License-Identifier: Apache-2.0
#include "config/disk_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "config/duration.hpp"
#include "config/number.hpp"
#include "config/size.hpp"
#include "config/text.hpp"

namespace elevd::config {
namespace {

using std::chrono::nanoseconds;

tl::unexpected<Error> invalid(std::string what) {
  return tl::unexpected(Error{EINVAL, std::move(what)});
}

Result<bool> parse_boolean(std::string_view text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off") return false;
  return invalid(
      fmt::format("{} is neither true nor false, expected 1 or 0, true or false", quote(text)));
}

Result<nanoseconds> parse_limited_duration(std::string_view text, nanoseconds longest) {
  auto span = parse_duration(text);
  if (span && *span > longest) {
    return invalid(
        fmt::format("{} is too long, expected at most {}", quote(text), format_duration(longest)));
  }
  return span;
}

Result<void> set_backing(DiskConfig& disk, std::string_view text) {
  return parse_backing(text).map([&](BackingSpec backing) { disk.backing = std::move(backing); });
}

Result<void> set_scheduler(DiskConfig& disk, std::string_view text) {
  if (text.empty()) return invalid("it is empty, expected the name of a scheduler");
  disk.scheduler = text;
  return {};
}

Result<void> set_queue_depth(DiskConfig& disk, std::string_view text) {
  return parse_number(text, 1, kMaxQueueDepth).map([&](std::uint64_t depth) {
    disk.queue_depth = static_cast<unsigned>(depth);
  });
}

Result<void> set_logical_block_size(DiskConfig& disk, std::string_view text) {
  const auto size = parse_size(text);
  if (!size || (*size != 512 && *size != 1024 && *size != 2048 && *size != 4096)) {
    return invalid(
        fmt::format("{} is not possible, expected 512, 1024, 2048 or 4096", quote(text)));
  }
  disk.logical_block_size = static_cast<unsigned>(*size);
  return {};
}

Result<void> set_read_only(DiskConfig& disk, std::string_view text) {
  return parse_boolean(text).map([&](bool value) { disk.read_only = value; });
}

Result<void> set_buffer_memory(DiskConfig& disk, std::string_view text) {
  const auto size = parse_size(text);
  if (!size) return tl::unexpected(size.error());
  if (*size < kMinBufferMemory) {
    return invalid(fmt::format("{} is too small, expected at least {}", quote(text),
                               format_size(kMinBufferMemory)));
  }
  disk.buffer_memory = *size;
  return {};
}

Result<void> set_model(DiskConfig& disk, std::string_view text) {
  if (text == "none") {
    disk.model.kind = ModelSpec::Kind::none;
  } else if (text == "delay") {
    disk.model.kind = ModelSpec::Kind::delay;
  } else if (text == "seek") {
    disk.model.kind = ModelSpec::Kind::seek;
  } else {
    return invalid(fmt::format("{} is not a model, expected none, delay or seek", quote(text)));
  }
  return {};
}

template <nanoseconds ModelSpec::*kMember>
Result<void> set_model_time(DiskConfig& disk, std::string_view text) {
  return parse_limited_duration(text, std::chrono::hours(1)).map([&](nanoseconds span) {
    disk.model.*kMember = span;
  });
}

Result<void> set_model_parallel(DiskConfig& disk, std::string_view text) {
  return parse_number(text, 1, kMaxQueueDepth).map([&](std::uint64_t count) {
    disk.model.parallel = static_cast<unsigned>(count);
  });
}

struct DiskKey {
  std::string_view name;
  ValueType type;
  Result<void> (*set)(DiskConfig&, std::string_view);
  std::string_view model;  // the only model it has a meaning for; empty: all
};

constexpr std::array<DiskKey, 11> kDiskKeys = {{
    {"backing", ValueType::text, set_backing, ""},
    {"scheduler", ValueType::text, set_scheduler, ""},
    {"queue_depth", ValueType::number, set_queue_depth, ""},
    {"logical_block_size", ValueType::size, set_logical_block_size, ""},
    {"read_only", ValueType::boolean, set_read_only, ""},
    {"buffer_memory", ValueType::size, set_buffer_memory, ""},
    {"model", ValueType::text, set_model, ""},
    {"model_service", ValueType::duration, set_model_time<&ModelSpec::service>, "delay"},
    {"model_parallel", ValueType::number, set_model_parallel, "delay"},
    {"model_sequential", ValueType::duration, set_model_time<&ModelSpec::sequential>, "seek"},
    {"model_random", ValueType::duration, set_model_time<&ModelSpec::random>, "seek"},
}};

constexpr auto kDiskKeyNames = [] {
  std::array<std::string_view, kDiskKeys.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kDiskKeys[i].name;
  return names;
}();

const DiskKey& disk_key(std::string_view name) {
  return *std::find_if(kDiskKeys.begin(), kDiskKeys.end(),
                       [&](const DiskKey& key) { return key.name == name; });
}

std::string_view model_name(ModelSpec::Kind kind) {
  switch (kind) {
    case ModelSpec::Kind::delay:
      return "delay";
    case ModelSpec::Kind::seek:
      return "seek";
    case ModelSpec::Kind::none:
      break;
  }
  return "none";
}

bool is_name_character(char character) {
  return (character >= 'a' && character <= 'z') || (character >= '0' && character <= '9') ||
         character == '_' || character == '.' || character == '-';
}

bool is_name_start(char character) {
  return is_name_character(character) && character != '_' && character != '.' && character != '-';
}

}  // namespace

Error error_at(const Place& place, std::string_view what, int code) {
  if (place.label.empty()) return {code, fmt::format("{}: {}", place.origin, what)};
  return {code, fmt::format("{}: {}: {}", place.origin, place.label, what)};
}

Result<void> check_disk_name(std::string_view name) {
  const bool good = !name.empty() && name.size() <= kMaxNameLength && is_name_start(name.front()) &&
                    std::all_of(name.begin(), name.end(), is_name_character);
  if (good) return {};
  return invalid(fmt::format(
      "{} is not a disk name, expected 1 to {} of a-z, 0-9, '_', '.' and '-', a letter or digit "
      "first",
      quote(name), kMaxNameLength));
}

std::span<const std::string_view> disk_key_names() { return kDiskKeyNames; }

ValueType disk_key_type(std::string_view name) { return disk_key(name).type; }

Result<Transport> parse_transport(std::string_view text) {
  for (const auto transport : {Transport::automatic, Transport::uring, Transport::dev}) {
    if (text == transport_name(transport)) return transport;
  }
  return invalid(fmt::format("{} is not a transport, expected auto, uring or dev", quote(text)));
}

Result<unsigned> parse_workers(std::string_view text) {
  return parse_number(text, 1, kMaxWorkers).map([](std::uint64_t count) {
    return static_cast<unsigned>(count);
  });
}

Result<nanoseconds> parse_stop_timeout(std::string_view text) {
  return parse_limited_duration(text, std::chrono::hours(24));
}

Result<nanoseconds> parse_busy_poll(std::string_view text) {
  return parse_limited_duration(text, std::chrono::seconds(1));
}

Result<BackingSpec> parse_backing(std::string_view text) {
  constexpr std::uint64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();
  using Kind = BackingSpec::Kind;
  for (const auto& [prefix, kind] : {std::pair<std::string_view, Kind>{"ram:", Kind::ram},
                                     std::pair<std::string_view, Kind>{"null:", Kind::null}}) {
    if (!text.starts_with(prefix)) continue;
    const auto size = parse_size(text.substr(prefix.size()));
    if (!size) return tl::unexpected(size.error());
    if (*size == 0 || *size > kMaxBytes) {
      return invalid(
          fmt::format("{} has an impossible size, expected 1 to {} bytes", quote(text), kMaxBytes));
    }
    return BackingSpec{kind, {}, *size};
  }
  if (text.empty() || text.find('\0') != std::string_view::npos) {
    return invalid(
        fmt::format("{} is not a backing, expected a path, ram:SIZE or null:SIZE", quote(text)));
  }
  return BackingSpec{Kind::path, std::string(text), 0};
}

DiskBuilder::DiskBuilder(std::string_view name, Place place,
                         std::span<const std::string_view> attributes)
    : place_(std::move(place)), attributes_(attributes) {
  disk_.name = name;
  disk_.origin = place_.origin;
}

Result<void> DiskBuilder::claim(std::string_view key, const Place& place) {
  const auto [entry, is_new] = given_.try_emplace(std::string(key), place);
  if (is_new) return {};
  const bool same_place = entry->second.origin == place.origin;
  const std::string first = same_place ? "" : fmt::format(" (first in {})", entry->second.origin);
  return tl::unexpected(
      error_at(place, fmt::format("given twice{}, expected once", first), EINVAL));
}

Result<void> DiskBuilder::set_key(std::string_view name, std::string_view text,
                                  const Place& place) {
  if (auto claimed = claim(name, place); !claimed) return claimed;
  if (auto done = disk_key(name).set(disk_, text); !done) {
    return tl::unexpected(error_at(place, done.error().what, done.error().code));
  }
  if (name == "scheduler") disk_.scheduler_origin = place.origin;
  return {};
}

Result<void> DiskBuilder::set_attribute(std::string_view path, std::string_view text,
                                        const Place& place,
                                        std::span<const std::string_view> candidates) {
  if (path == "scheduler") return set_key(path, text, place);
  if (std::find(attributes_.begin(), attributes_.end(), path) == attributes_.end()) {
    return tl::unexpected(error_at(place, "unknown key" + suggestion(path, candidates), EINVAL));
  }
  if (auto claimed = claim(path, place); !claimed) return claimed;
  if (text.empty()) {
    return tl::unexpected(error_at(place, "it is empty, expected a value to write", EINVAL));
  }
  disk_.attributes.push_back({std::string(path), std::string(text), place.origin});
  return {};
}

Result<void> DiskBuilder::add_group_weight(std::string_view path, std::string_view text,
                                           const Place& place) {
  if (path != "default" && !path.starts_with('/')) {
    return tl::unexpected(error_at(
        place, fmt::format("{} is no group, expected the path of a cgroup or default", quote(path)),
        EINVAL));
  }
  const auto weight = parse_number(text, 1, kMaxGroupWeight);
  if (!weight) return tl::unexpected(error_at(place, weight.error().what, weight.error().code));
  disk_.group_weights.push_back({std::string(path), std::string(text), place.origin});
  return {};
}

Result<void> DiskBuilder::check_model() const {
  const std::string_view chosen = model_name(disk_.model.kind);
  for (const DiskKey& key : kDiskKeys) {
    const auto entry = given_.find(key.name);
    if (key.model.empty() || key.model == chosen || entry == given_.end()) continue;
    return tl::unexpected(error_at(
        entry->second,
        fmt::format("no meaning with model {}, expected model {}", chosen, key.model), EINVAL));
  }
  return {};
}

Result<void> DiskBuilder::check_backing() const {
  const auto entry = given_.find("backing");
  if (entry == given_.end()) {
    return tl::unexpected(error_at(
        place_, "no backing, expected backing = PATH, \"ram:SIZE\" or \"null:SIZE\"", EINVAL));
  }
  const std::uint64_t block = disk_.logical_block_size.value_or(512);
  if (disk_.backing.kind != BackingSpec::Kind::path && disk_.backing.bytes < block) {
    return tl::unexpected(
        error_at(entry->second,
                 fmt::format("{} bytes are no block, expected at least {} (logical_block_size)",
                             disk_.backing.bytes, block),
                 EINVAL));
  }
  return {};
}

Result<DiskConfig> DiskBuilder::finish() {
  return check_backing().and_then([&] { return check_model(); }).map([&] {
    return std::move(disk_);
  });
}

}  // namespace elevd::config
