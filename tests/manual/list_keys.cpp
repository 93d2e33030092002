// SPDX-License-Identifier: Apache-2.0
// list_keys: what the tables of the program say, one a line, for comparison with the manuals.
//
//   list_keys daemon      keys of the configuration file outside of disks
//   list_keys disk        keys of a disk
//   list_keys attributes  "GROUP PATH rw" or "GROUP PATH ro". GROUP is "disk", PATH below
//                         block/DISK; "debug", PATH below kernel/debug/block/DISK; or the name of
//                         a scheduler, PATH below either
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "config/disk_builder.hpp"
#include "config/toml_file.hpp"
#include "sysfs/attribute.hpp"
#include "sysfs/scheduler.hpp"

namespace {

void print(std::string_view text) {
  std::printf("%.*s\n", static_cast<int>(text.size()), text.data());
}

void print_files(const std::string& prefix, std::span<const elevd::sysfs::Attribute> files) {
  for (const elevd::sysfs::Attribute& row : files) {
    print(prefix + std::string(row.name) + ((row.mode & 0200) != 0 ? " rw" : " ro"));
  }
}

void print_directories(const std::string& group,
                       std::span<const elevd::sysfs::DirectoryTable> directories) {
  for (const elevd::sysfs::DirectoryTable& directory : directories) {
    const std::string path(directory.path);
    const char* const end = path.empty() ? "" : directory.per_worker ? "N/" : "/";
    print_files(group + " " + path + end, directory.files);
  }
}

// A template, so that it also compiles where schedulers have no files yet.
template <class Type>
void print_scheduler(const Type& type) {
  if constexpr (requires { type.files(); }) {
    const std::string group(type.name);
    if (type.files != nullptr) print_files(group + " queue/iosched/", type.files());
    if (type.debug_files != nullptr) print_files(group + " sched/", type.debug_files());
    if (type.hardware_queue_debug_files != nullptr) {
      print_files(group + " hctx0/sched/", type.hardware_queue_debug_files());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  if (what == "daemon") {
    for (const std::string_view key : elevd::config::top_key_names()) print(key);
  } else if (what == "disk") {
    for (const std::string_view key : elevd::config::disk_key_names()) print(key);
  } else if (what == "attributes") {
    print_directories("disk", elevd::sysfs::disk_directories());
    print_directories("debug", elevd::sysfs::debug_directories());
    print_files("debug ", elevd::sysfs::modelled_device_debug_files());
    for (const auto& type : elevd::sysfs::available_schedulers()) print_scheduler(type);
  } else {
    std::fputs("usage: list_keys daemon | disk | attributes\n", stderr);
    return 2;
  }
  return 0;
}
