// SPDX-License-Identifier: Apache-2.0
// Scenario: a file for `elevctl simulate`, parsed.
//
// Owns:       plain values.
// Thread:     any.
// Time:       none; times in it count from the start of the run.
// Invariants: what comes out of parse_scenario is right as far as the text alone says; what a store
//             refuses is seen when it is its turn.
// See also:   docs/spec/scenario.md sections 1 and 2; simulation.hpp (what it does).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/result.hpp"
#include "daemon/device_model.hpp"
#include "sched/limits.hpp"

namespace elevd::daemon::scenario {

/// A bio, as written.
struct BioWords {
  sched::Op op = sched::Op::read;
  sched::Sector start;
  sched::Sectors length;
  std::optional<sched::IoPriority> priority;  ///< none: its task's
  bool has_level = false;                     ///< the level was written
  sched::BioFlags flags = 0;
};

/// The device as it is made: what cannot change once there was a bio.
struct DeviceFacts {
  std::uint32_t depth = 128;  ///< hardware tags
  sched::Bytes size{1ULL << 40U};
  sched::Limits limits;
};

/// A change of the device's timing after the first bio; only what is named.
struct Device {
  DeviceTiming timing;  ///< as it is from now on
  bool stall = false;
};
struct Scheduler {
  std::string name;
};
struct Set {
  std::string attribute, value;
};
struct Group {
  std::string name, parent;
  unsigned weight = 100;
};
struct Task {
  std::string name;
  std::optional<sched::IoPriority> priority;
  std::optional<unsigned> worker;
  std::optional<std::string> group;
  std::optional<unsigned> weight;
};
struct Submit {
  std::string task;
  std::vector<BioWords> bios;
  bool each = false;  ///< each in a plug of its own
};
enum class JobKind : std::uint8_t { read, write, randread, randwrite, randrw };
struct Job {
  std::string task;
  JobKind kind = JobKind::read;
  sched::Sectors block;
  std::uint64_t depth = 0;
  std::uint64_t batch = 1;
  std::optional<sched::Duration> runtime;
  std::optional<std::uint64_t> count;
  sched::Duration think;
  sched::Sector offset;
  sched::Sectors size;
  std::uint64_t seed = 1;
  bool async = false;  ///< nobody waits for its writes
};
struct Quiesce {};
struct Unquiesce {};
struct Release {
  std::optional<std::uint64_t> count;  ///< none: all
};
struct At {
  bool relative = false;
  sched::Duration time;  ///< since start, or from now
};
struct Drain {};
struct ExpectDispatch {
  std::vector<BioWords> bios;
};
struct Expect {
  std::string file, line;
};
struct ExpectSummary {
  std::string task, key;
  double low = 0, high = 0;
  std::string low_text, high_text;
};

using Action = std::variant<Device, Scheduler, Set, Group, Task, Submit, Job, Quiesce, Unquiesce,
                            Release, At, Drain, ExpectDispatch, Expect, ExpectSummary>;

struct Statement {
  unsigned line = 0;
  Action action;
};

struct Scenario {
  std::string file;  ///< as messages name it
  DeviceFacts facts;
  DeviceTiming timing;  ///< at the start
  bool stalled = false;
  unsigned workers = 1;
  std::vector<Statement> statements;
};

inline constexpr std::string_view kDefaultTask = "t0";
inline constexpr std::string_view kWholeDisk = "all";  ///< what a summary calls all tasks together
/// Workers are 0 to this.
inline constexpr unsigned kLastWorker = 62;

/// Keys of a summary line, docs/spec/scenario.md section 4.
inline constexpr std::string_view kSummaryKeys[] = {
    "bios",           "dispatched", "merged_plug", "merged_bio", "merged_insert",
    "merged_request", "seq",        "bytes",       "share",      "mb_s",
    "mean_us",        "p50_us",     "p95_us",      "p99_us",     "max_us"};

/// Error: EINVAL, "FILE:LINE: what is wrong", of the first bad line.
[[nodiscard]] config::Result<Scenario> parse_scenario(std::string_view text, std::string_view file);

/// "R100+8/RT", "F": as docs/spec/scenario.md section 4 prints a request or bio. With `level`, the
/// level is shown too (`/BE0`).
[[nodiscard]] std::string format_object(sched::Op op, sched::Sector start, sched::Sectors length,
                                        sched::IoPriority priority, bool level = false);

}  // namespace elevd::daemon::scenario
