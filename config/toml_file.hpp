// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/result.hpp"

// TomlFile: a configuration file as plain structs.
//
// Owns:       nothing.
// Thread:     any.
// Time:       none.
// Invariants: (1) an unknown key, a wrong type and a wrong value are errors, never ignored;
//             (2) errors read "FILE:LINE: key: what, expected ..." on one line.
// See also:   disk_builder.hpp (the rules of a disk), packaging/elevd.toml (a sample).
namespace elevd::config {

// What a file says; what it leaves out is empty.
struct FileConfig {
  std::optional<std::string> directory;
  std::optional<Transport> transport;
  std::optional<unsigned> workers;
  std::optional<std::chrono::nanoseconds> stop_timeout;
  std::optional<std::chrono::nanoseconds> busy_poll;
  std::vector<DiskConfig> disks;  // in the order of the file
};

// The keys outside of disks; "disk", the tables of the disks, is one of them.
std::span<const std::string_view> top_key_names();

// Reads and checks a file. `attributes`: the writable queue attributes that exist, by their path
// below queue/. Errors: EINVAL, or the errno of open or read ("FILE: No such file or directory").
Result<FileConfig> load(const std::string& path, std::span<const std::string_view> attributes);

// The same for text already read; `path` is the name in messages.
Result<FileConfig> parse_toml(std::string_view text, std::string_view path,
                              std::span<const std::string_view> attributes);

}  // namespace elevd::config
