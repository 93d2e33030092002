// SPDX-License-Identifier: Apache-2.0
// MqDeadlineBench: a bench with mq-deadline on it, and the steps of the worked examples.
//
// Steps:      words separated by blanks. A bio in the notation of docs/spec/mq-deadline.md 14 joins
//             the burst; `|` ends it and drains, `;` ends it and 10 ms pass, `@N` ends it and goes
//             on at N ms since the start, `!` ends it and completes the oldest request, `*` ends it
//             and completes everything one by one, the queue running after each; `quiesce` and
//             `unquiesce` end it, too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

#include "bench.hpp"
#include "sched/mq_deadline.hpp"

namespace elevd::sched::test {

struct MqDeadlineBench {
  struct Options {
    std::uint32_t depth = 128;
    std::uint32_t nr_requests = 256;
    unsigned workers = 1;
  };
  Bench bench;
  MqDeadline* elevator = nullptr;
  std::string dispatched;  ///< what was issued, joined by blanks
  Instant begin;

  MqDeadlineBench() : MqDeadlineBench(Options{}) {}
  explicit MqDeadlineBench(Options options)
      : bench({.workers = options.workers, .depth = options.depth}) {
    auto made = std::make_unique<MqDeadline>();
    elevator = made.get();
    bench.queue().set_elevator(std::move(made));
    bench.queue().set_nr_requests(options.nr_requests);
    begin = bench.now();
    bench.on_issue = [this](const Request& rq) { dispatched += notation(rq) + " "; };
  }
  ~MqDeadlineBench() { bench.release_all(); }

  /// The notation of the page: no length if it is 8, no class if it is best effort.
  static std::string notation(const Request& rq) {
    const unsigned io_class = MqDeadline::class_of(rq.priority);
    return describe_briefly(rq) + (io_class == 0 ? "/RT" : io_class == 2 ? "/ID" : "");
  }

  void set(std::string_view settings) {
    std::istringstream words{std::string(settings)};
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const auto value = static_cast<std::int32_t>(std::stol(word.substr(equals + 1)));
      MqDeadlineTunables& tunables = elevator->tunables();
      if (name == "read_expire") tunables.read_expire_ms = value;
      if (name == "write_expire") tunables.write_expire_ms = value;
      if (name == "writes_starved") tunables.writes_starved = value;
      if (name == "front_merges") tunables.front_merges = value;
      if (name == "fifo_batch") tunables.fifo_batch = value;
      if (name == "prio_aging_expire") tunables.prio_aging_expire_ms = value;
      if (name == "nomerges") bench.queue().set_nomerges(static_cast<unsigned>(value));
    }
  }

  void play(std::string_view steps) {
    std::istringstream words{std::string(steps)};
    std::string burst;
    const auto flush = [&] {
      if (!burst.empty()) bench.burst(burst);
      burst.clear();
      bench.settle();
    };
    for (std::string word; words >> word;) {
      if (std::string_view("RWDZF").find(word[0]) != std::string_view::npos) {
        if (word.ends_with("/ID")) word += "LE";
        burst += word + " ";
        continue;
      }
      flush();
      bench.step(word);
      if (word[0] == '@') {
        const Instant at = begin + Duration{std::stoll(word.substr(1)) * 1'000'000};
        bench.advance(at - bench.now());
      }
    }
    flush();
  }
};

}  // namespace elevd::sched::test
