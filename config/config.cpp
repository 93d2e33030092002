// SPDX-License-Identifier: Apache-2.0
#include "config/config.hpp"

#include <algorithm>
#include <array>

namespace elevd::config {
namespace {

constexpr std::array<std::string_view, 2> kDepthsFirst = {"nr_requests", "async_depth"};

bool goes_first(const Attribute& attribute) {
  return std::find(kDepthsFirst.begin(), kDepthsFirst.end(), attribute.path) != kDepthsFirst.end();
}

}  // namespace

std::string_view transport_name(Transport transport) {
  switch (transport) {
    case Transport::automatic:
      return "auto";
    case Transport::uring:
      return "uring";
    case Transport::dev:
      return "dev";
  }
  return "auto";
}

std::vector<Attribute> ordered_attributes(const DiskConfig& disk) {
  std::vector<Attribute> ordered;
  if (disk.scheduler) ordered.push_back({"scheduler", *disk.scheduler, disk.scheduler_origin});
  for (const std::string_view path : kDepthsFirst) {
    std::copy_if(disk.attributes.begin(), disk.attributes.end(), std::back_inserter(ordered),
                 [&](const Attribute& attribute) { return attribute.path == path; });
  }
  std::copy_if(disk.attributes.begin(), disk.attributes.end(), std::back_inserter(ordered),
               [](const Attribute& attribute) { return !goes_first(attribute); });
  return ordered;
}

std::string default_directory(bool is_root, std::string_view runtime_directory) {
  if (is_root) return "/run/elevd";
  if (runtime_directory.empty()) return {};
  std::string directory(runtime_directory);
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  return directory + "/elevd";
}

}  // namespace elevd::config
