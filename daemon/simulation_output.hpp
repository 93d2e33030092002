// SPDX-License-Identifier: Apache-2.0
// SimulationOutput: what a simulation prints, and the sums it keeps for that.
//
// Owns:       the text so far; a record per task, with the latency of every bio.
// Thread:     one.
// Time:       as the events say it.
// Invariants: the same events give the same bytes.
// See also:   docs/spec/scenario.md section 4; simulation.hpp (who reports the events).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sched/stats.hpp"
#include "sched/trace.hpp"

namespace elevd::daemon {

enum class OutputKind : std::uint8_t { events, dispatch, summary };

struct OutputOptions {
  OutputKind kind = OutputKind::events;
  bool json = false;
};

/// What an event is about: a bio, a request, or nothing (a plug).
struct EventObject {
  sched::Op op = sched::Op::read;
  sched::Sector start;
  sched::Sectors length;
  sched::IoPriority priority;
};

/// "0.000300000": seconds with nine digits.
[[nodiscard]] std::string format_seconds(sched::Instant at);

class SimulationOutput {
 public:
  explicit SimulationOutput(OutputOptions options) : options_(options), total_("all") {}

  /// Number of a new task.
  [[nodiscard]] unsigned add_task(std::string_view name);

  /// `object` null: plug events, of `n` requests. X: `n` sectors are the first piece.
  void event(sched::TraceEvent event, const EventObject* object, unsigned task, std::uint64_t n,
             sched::Instant now);
  /// A bio, or a request, of `task` was merged away at `point`.
  void merged(unsigned task, sched::MergePoint point);
  /// A bio is done: what it moved, and when it was submitted.
  void completed(unsigned task, sched::Bytes bytes, sched::Instant queued, sched::Instant now);

  /// The text so far, without summaries.
  [[nodiscard]] const std::string& text() const { return text_; }
  /// One line a task in order of its first bio, then the whole disk.
  [[nodiscard]] std::string summary() const;
  /// The value of a key of docs/spec/scenario.md section 4 as it is printed. `task` none: the whole
  /// disk. REQUIRES: the key exists.
  [[nodiscard]] std::string summary_value(std::optional<unsigned> task, std::string_view key) const;

 private:
  struct Sums {
    explicit Sums(std::string_view task_name) : name(task_name) {}
    std::string name;
    std::uint64_t bios = 0;
    std::uint64_t dispatched = 0;
    std::uint64_t sequential = 0;
    std::array<std::uint64_t, sched::kMergePoints> merged{};
    std::uint64_t bytes = 0;
    std::optional<sched::Instant> first_queued;
    sched::Instant last_completed;
    std::vector<std::int64_t> latencies_ns;
  };

  template <class Change>
  void add_to(unsigned task, Change change);
  void count(sched::TraceEvent event, const EventObject& object, unsigned task, sched::Instant now);
  void print_text(sched::TraceEvent event, const EventObject* object, unsigned task,
                  std::uint64_t n, sched::Instant now);
  void print_json(sched::TraceEvent event, const EventObject* object, unsigned task,
                  std::uint64_t n, sched::Instant now);
  [[nodiscard]] std::vector<std::string> values(const Sums& sums) const;
  [[nodiscard]] std::string summary_line(const Sums& sums) const;

  OutputOptions options_;
  std::string text_;
  std::vector<Sums> tasks_;
  std::vector<unsigned> order_;  ///< tasks by their first bio
  Sums total_;
  std::optional<sched::Sector> head_;  ///< where the last dispatch ended
};

}  // namespace elevd::daemon
