// SPDX-License-Identifier: Apache-2.0
#include "group_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "grammar.hpp"

namespace elevd::sysfs {
namespace {

using sched::GroupWeights;

constexpr std::string_view kDefaultWord = "default";
constexpr std::string_view kBlanks = " \t\n";

/// Words at both ends of the text; a path may have blanks in it.
struct Words {
  std::string_view first;  ///< empty: there is one word
  std::string_view last;
};

Words split(std::string_view text) {
  const std::size_t end = text.find_last_not_of(kBlanks);
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  const std::size_t last = text.find_last_of(kBlanks);
  if (last == std::string_view::npos) return {{}, text};
  const std::size_t first_end = text.find_last_not_of(kBlanks, last);
  return {first_end == std::string_view::npos ? std::string_view{} : text.substr(0, first_end + 1),
          text.substr(last + 1)};
}

/// Out of range goes before what follows the number: 0x64 is a 0 and a rest.
Parsed<std::uint32_t> parse_weight(std::string_view text) {
  const auto digits = text.substr(0, text.find_first_not_of("0123456789"));
  if (digits.empty()) return tl::unexpected(EINVAL);
  const auto value = parse_u64(digits);
  if (!value || *value < GroupWeights::kLeast || *value > GroupWeights::kMost) {
    return tl::unexpected(ERANGE);
  }
  if (digits.size() != text.size()) return tl::unexpected(EINVAL);
  return static_cast<std::uint32_t>(*value);
}

/// Of a group that can have a weight: the root competes with nobody.
bool is_group_path(std::string_view path) {
  return path.size() > 1 && path.starts_with('/') && !path.ends_with('/') &&
         path.find("//") == std::string_view::npos && path.find('\n') == std::string_view::npos;
}

}  // namespace

std::string format_group_weights(Disk& disk) {
  const GroupWeights weights = disk.queue->group_weights();
  std::vector<std::pair<std::string, std::uint32_t>> own;
  if (const sched::Groups* const groups = disk.queue->groups()) {
    for (const auto& [id, weight] : weights.own()) own.emplace_back(groups->path(id), weight);
  }
  std::sort(own.begin(), own.end());
  std::string text = fmt::format("{} {}\n", kDefaultWord, weights.usual());
  for (const auto& [path, weight] : own) text += fmt::format("{} {}\n", path, weight);
  return text;
}

int store_group_weight(Disk& disk, std::string_view text) {
  const auto [first, last] = split(text);
  if (first.empty() || first == kDefaultWord) {
    const auto weight = parse_weight(last);
    if (!weight) return weight.error();
    return disk.queue->with_group_weights([&](GroupWeights& weights) {
      weights.set_usual(*weight);
      return 0;
    });
  }
  sched::Groups* const groups = disk.queue->groups();
  if (groups == nullptr || !is_group_path(first)) return EINVAL;
  Parsed<std::uint32_t> weight = 0;
  if (last != kDefaultWord) weight = parse_weight(last);
  if (!weight) return weight.error();
  const sched::GroupId id = groups->id(first);
  if (id == sched::kRootGroup) return ENOSPC;
  return disk.queue->with_group_weights([&](GroupWeights& weights) {
    weights.set(id, *weight);
    return 0;
  });
}

}  // namespace elevd::sysfs
