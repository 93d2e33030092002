// SPDX-License-Identifier: Apache-2.0
#include "simulation_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "scenario.hpp"
#include "sched/assertion.hpp"

namespace elevd::daemon {
namespace {

using sched::Instant;
using sched::MergePoint;
using sched::Op;
using sched::TraceEvent;

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr double kNsPerUs = 1000.0;

std::string shown(const EventObject& object) {
  return scenario::format_object(object.op, object.start, object.length, object.priority);
}

std::string_view operation(Op op) {
  constexpr std::string_view kLetters = "RWFDZ";
  return kLetters.substr(static_cast<unsigned>(op), 1);
}

std::string priority_word(sched::IoPriority priority) {
  constexpr unsigned kIdle = 3;
  if (priority.io_class() == kIdle) return "idle";
  return fmt::format("{}/{}", priority.io_class() == 1 ? "rt" : "be", priority.level());
}

std::string two_decimals(double value) { return fmt::format("{:.2f}", value); }

double ratio(double part, double whole) { return whole == 0 ? 0 : part / whole; }

/// Nearest rank. REQUIRES: sorted.
double percentile(const std::vector<std::int64_t>& sorted, std::size_t percent) {
  if (sorted.empty()) return 0;
  const std::size_t rank = (percent * sorted.size() + 99) / 100;
  return static_cast<double>(sorted[std::max<std::size_t>(rank, 1) - 1]);
}

}  // namespace

std::string format_seconds(Instant at) {
  return fmt::format("{}.{:09}", at.ns / kNsPerSecond, at.ns % kNsPerSecond);
}

unsigned SimulationOutput::add_task(std::string_view name) {
  tasks_.emplace_back(name);
  return static_cast<unsigned>(tasks_.size() - 1);
}

template <class Change>
void SimulationOutput::add_to(unsigned task, Change change) {
  change(tasks_[task]);
  change(total_);
}

void SimulationOutput::event(TraceEvent event, const EventObject* object, unsigned task,
                             std::uint64_t n, Instant now) {
  if (object != nullptr) count(event, *object, task, now);
  if (options_.kind == OutputKind::summary) return;
  if (options_.kind == OutputKind::dispatch && event != TraceEvent::issued) return;
  if (options_.json) {
    print_json(event, object, task, n, now);
  } else {
    print_text(event, object, task, n, now);
  }
}

void SimulationOutput::count(TraceEvent event, const EventObject& object, unsigned task,
                             Instant now) {
  if (event == TraceEvent::queued) {
    if (tasks_[task].bios == 0) order_.push_back(task);
    add_to(task, [now](Sums& sums) {
      ++sums.bios;
      if (!sums.first_queued) sums.first_queued = now;
    });
  }
  if (event != TraceEvent::issued) return;
  const bool has_place = object.op != Op::flush;
  const bool sequential = has_place && head_ == object.start;
  if (has_place) head_ = object.start + object.length;
  add_to(task, [sequential](Sums& sums) {
    ++sums.dispatched;
    if (sequential) ++sums.sequential;
  });
}

void SimulationOutput::merged(unsigned task, MergePoint point) {
  add_to(task, [point](Sums& sums) { ++sums.merged[static_cast<unsigned>(point)]; });
}

void SimulationOutput::completed(unsigned task, sched::Bytes bytes, Instant queued, Instant now) {
  add_to(task, [bytes, queued, now](Sums& sums) {
    sums.bytes += bytes.value;
    sums.last_completed = now;
    sums.latencies_ns.push_back((now - queued).ns);
  });
}

void SimulationOutput::print_text(TraceEvent event, const EventObject* object, unsigned task,
                                  std::uint64_t n, Instant now) {
  std::string what;
  if (object == nullptr) {
    what = event == TraceEvent::plugged ? "-" : fmt::format("{}", n);
  } else if (event == TraceEvent::split) {
    EventObject first = *object;
    EventObject rest = *object;
    first.length = {n};
    rest.start += first.length;
    rest.length -= first.length;
    what = shown(first) + "," + shown(rest);
  } else {
    what = shown(*object);
  }
  if (options_.kind == OutputKind::dispatch) {
    text_ += what + "\n";
    return;
  }
  fmt::format_to(std::back_inserter(text_), "{} {} {} {}\n", format_seconds(now),
                 static_cast<char>(event), what, tasks_[task].name);
}

void SimulationOutput::print_json(TraceEvent event, const EventObject* object, unsigned task,
                                  std::uint64_t n, Instant now) {
  auto out = std::back_inserter(text_);
  fmt::format_to(out, "{{\"t_ns\":{},\"ev\":\"{}\"", now.ns, static_cast<char>(event));
  if (object != nullptr) {
    fmt::format_to(out, ",\"op\":\"{}\"", operation(object->op));
    if (object->op != Op::flush) {
      fmt::format_to(out, ",\"sector\":{},\"sectors\":{}", object->start.value,
                     object->length.value);
    }
    fmt::format_to(out, ",\"prio\":\"{}\"", priority_word(object->priority));
  }
  fmt::format_to(out, ",\"task\":\"{}\"", tasks_[task].name);
  if (event == TraceEvent::unplugged || event == TraceEvent::split) {
    fmt::format_to(out, ",\"n\":{}", n);
  }
  text_ += "}\n";
}

/// In the order of scenario::kSummaryKeys.
std::vector<std::string> SimulationOutput::values(const Sums& sums) const {
  const auto merged = [&sums](MergePoint point) {
    return sums.merged[static_cast<unsigned>(point)];
  };
  std::vector<std::int64_t> sorted = sums.latencies_ns;
  std::sort(sorted.begin(), sorted.end());
  double total = 0;
  for (const std::int64_t latency : sorted) total += static_cast<double>(latency);
  const Instant first = sums.first_queued.value_or(Instant{});
  const double span = static_cast<double>((sums.last_completed - first).ns);
  const double bytes = static_cast<double>(sums.bytes);
  const auto us = [](double ns) { return two_decimals(ns / kNsPerUs); };
  std::vector<std::string> all;
  for (const std::uint64_t number :
       {sums.bios, sums.dispatched, merged(MergePoint::plug),
        merged(MergePoint::bio_merge) + merged(MergePoint::software_queue),
        merged(MergePoint::insert), merged(MergePoint::request)}) {
    all.push_back(fmt::format("{}", number));
  }
  all.push_back(two_decimals(
      100 * ratio(static_cast<double>(sums.sequential), static_cast<double>(sums.dispatched))));
  all.push_back(fmt::format("{}", sums.bytes));
  all.push_back(two_decimals(100 * ratio(bytes, static_cast<double>(total_.bytes))));
  all.push_back(two_decimals(sorted.empty() ? 0 : ratio(bytes * 1000, span)));
  all.push_back(us(ratio(total, static_cast<double>(sorted.size()))));
  for (const std::size_t percent : {50U, 95U, 99U, 100U}) {
    all.push_back(us(percentile(sorted, percent)));
  }
  ELEVD_ASSERT(all.size() == std::size(scenario::kSummaryKeys));
  return all;
}

std::string SimulationOutput::summary_line(const Sums& sums) const {
  const std::vector<std::string> all = values(sums);
  std::string line = options_.json ? "{\"task\":\"" + sums.name + "\"" : sums.name;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string_view key = scenario::kSummaryKeys[i];
    line +=
        options_.json ? fmt::format(",\"{}\":{}", key, all[i]) : fmt::format(" {}={}", key, all[i]);
  }
  return line + (options_.json ? "}\n" : "\n");
}

std::string SimulationOutput::summary() const {
  std::string lines;
  for (const unsigned task : order_) lines += summary_line(tasks_[task]);
  return lines + summary_line(total_);
}

std::string SimulationOutput::summary_value(std::optional<unsigned> task,
                                            std::string_view key) const {
  const auto* const at =
      std::find(std::begin(scenario::kSummaryKeys), std::end(scenario::kSummaryKeys), key);
  ELEVD_ASSERT(at != std::end(scenario::kSummaryKeys));
  return values(task ? tasks_[*task]
                     : total_)[static_cast<std::size_t>(at - std::begin(scenario::kSummaryKeys))];
}

}  // namespace elevd::daemon
