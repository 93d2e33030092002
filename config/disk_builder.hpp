// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "config/config.hpp"
#include "config/result.hpp"

// DiskBuilder: turns the keys of one disk, as texts, into a DiskConfig.
//
// Owns:       the disk until finish().
// Thread:     any, one at a time.
// Time:       none.
// Invariants: (1) command line and file obey the same rules, because both come through here;
//             (2) each key is set at most once;
//             (3) errors read "ORIGIN: LABEL: what, expected ..." on one line.
// See also:   config.hpp (the ranges).
namespace elevd::config {

// What a key takes; the file's reader checks the TOML type by it.
enum class ValueType { text, number, boolean, size, duration };

// A key in words of the user: where it stands and how it is called there.
struct Place {
  std::string origin;  // "--disk fast" or "FILE:LINE"
  std::string label;   // "nr_requests" or "disk.fast.queue.nr_requests"
};

// "ORIGIN: LABEL: WHAT", without the label when it is empty.
Error error_at(const Place& place, std::string_view what, int code);

// Error: EINVAL with what is expected, unless the name obeys the rule of DiskConfig::name.
Result<void> check_disk_name(std::string_view name);

// A key of a disk in the file only: the weights of groups under bfq, a table.
inline constexpr std::string_view kGroupWeightsKey = "group_weights";

// The names of all disk keys, "backing" first.
std::span<const std::string_view> disk_key_names();

// Type of a disk key. REQUIRES: name is one of disk_key_names().
ValueType disk_key_type(std::string_view name);

// Values both readers know outside of disks. Errors: EINVAL, "'x' ..., expected ...".
Result<Transport> parse_transport(std::string_view text);
Result<unsigned> parse_workers(std::string_view text);
Result<std::chrono::nanoseconds> parse_stop_timeout(std::string_view text);
Result<std::chrono::nanoseconds> parse_busy_poll(std::string_view text);
// PATH, ram:SIZE or null:SIZE.
Result<BackingSpec> parse_backing(std::string_view text);

class DiskBuilder {
 public:
  // REQUIRES: check_disk_name(name) succeeds; `attributes` outlives the builder.
  DiskBuilder(std::string_view name, Place place, std::span<const std::string_view> attributes);

  // A disk key. REQUIRES: name is one of disk_key_names().
  Result<void> set_key(std::string_view name, std::string_view text, const Place& place);

  // A queue attribute by its path below queue/; "scheduler" is the same as the key. `candidates`
  // are the words an unknown one is compared with.
  Result<void> set_attribute(std::string_view path, std::string_view text, const Place& place,
                             std::span<const std::string_view> candidates);

  // An entry of the table kGroupWeightsKey: a path of a cgroup, or "default".
  Result<void> add_group_weight(std::string_view path, std::string_view text, const Place& place);

  // The disk, after the rules that concern several keys. The builder is empty afterwards.
  Result<DiskConfig> finish();

 private:
  Result<void> claim(std::string_view key, const Place& place);
  Result<void> check_model() const;
  Result<void> check_backing() const;

  DiskConfig disk_;
  Place place_;
  std::span<const std::string_view> attributes_;
  std::map<std::string, Place, std::less<>> given_;  // by key or attribute path
};

}  // namespace elevd::config
