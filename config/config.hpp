// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Config: what a user asked for, as plain structs.
//
// Owns:       its texts.
// Thread:     any; plain values.
// Time:       none.
// Invariants: (1) what the two readers return obeys every range and rule written here;
//             (2) nothing here was opened: whether a backing exists, a scheduler is known or an
//                 attribute's value is accepted, the daemon finds out, and points at `origin`.
// See also:   command_line.hpp and toml_file.hpp (who fill this), disk_builder.hpp (the rules).
namespace elevd::config {

enum class Transport { automatic, uring, dev };

// The word of the command line and the file: "auto", "uring", "dev".
std::string_view transport_name(Transport transport);

struct BackingSpec {
  enum class Kind { path, ram, null };
  Kind kind = Kind::path;
  std::string path;         // kind path only, as given: relative to the working directory
  std::uint64_t bytes = 0;  // kinds ram and null: at least one logical block, at most 2^63-1
};

// A modelled device in front of the backing; docs/spec/scenario.md section 2, `device`.
struct ModelSpec {
  enum class Kind { none, delay, seek };
  Kind kind = Kind::none;
  std::chrono::nanoseconds service = std::chrono::microseconds(100);     // delay: 0 to 1 h
  unsigned parallel = 0;                                                 // delay: served at once,
                                                                         // 0 = the queue depth
  std::chrono::nanoseconds sequential = std::chrono::microseconds(300);  // seek: 0 to 1 h
  std::chrono::nanoseconds random = std::chrono::milliseconds(3);        // seek: 0 to 1 h
};

inline constexpr unsigned kDefaultQueueDepth = 128;
inline constexpr unsigned kMaxQueueDepth = 10240;
inline constexpr std::uint64_t kMinBufferMemory = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kDefaultBufferMemory = std::uint64_t{128} << 20;
inline constexpr unsigned kMaxWorkers = 64;
inline constexpr unsigned kMaxGroupWeight = 1000;
inline constexpr std::size_t kMaxNameLength = 31;

// One store to make when the disk starts.
struct Attribute {
  std::string path;    // below queue/: "nr_requests", "iosched/fifo_batch"
  std::string text;    // what to write, without a final newline
  std::string origin;  // "--disk fast" or "FILE:LINE"
};

struct DiskConfig {
  std::string name;  // [a-z0-9][a-z0-9_.-]*, at most kMaxNameLength
  BackingSpec backing;
  std::optional<std::string> scheduler;  // not empty; none given: the daemon's default
  std::string scheduler_origin;          // like origin; empty without a scheduler
  std::optional<unsigned> queue_depth;   // 1..kMaxQueueDepth; else kDefaultQueueDepth
  std::optional<unsigned>
      logical_block_size;  // 512, 1024, 2048 or 4096; else what fits the backing
  bool read_only = false;
  std::uint64_t buffer_memory = kDefaultBufferMemory;  // bytes, at least kMinBufferMemory
  ModelSpec model;
  std::vector<Attribute> attributes;     // in the order given, each path once, never "scheduler"
  std::vector<Attribute> group_weights;  // path: of a cgroup, or "default"; not checked; each once
  std::string origin;                    // where the disk was named: "--disk fast" or "FILE:LINE"
};

struct DaemonConfig {
  std::string directory;  // DIR; may be empty when check_only
  Transport transport = Transport::automatic;
  unsigned workers = 0;  // 1..kMaxWorkers; 0 = the daemon's default
  std::chrono::nanoseconds stop_timeout = std::chrono::seconds(30);  // 0 to 24 h
  std::chrono::nanoseconds busy_poll{0};  // looked for work before sleeping; 0 to 1 s
  bool daemonize = false;
  bool check_only = false;
  std::vector<DiskConfig> disks;  // at least one, names differ; file first, then command line
};

// The stores of a disk in the order they must be made: scheduler (when given), nr_requests,
// async_depth, then the rest as given. A change of scheduler resets the two depths and replaces
// iosched/ (docs/spec/sysfs.md section 4), so it has to come first.
std::vector<Attribute> ordered_attributes(const DiskConfig& disk);

// DIR when nobody names one: /run/elevd for root, else RUNTIME_DIRECTORY/elevd
// ($XDG_RUNTIME_DIR); empty if that is not known either.
std::string default_directory(bool is_root, std::string_view runtime_directory);

}  // namespace elevd::config
