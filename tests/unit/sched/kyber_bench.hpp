// SPDX-License-Identifier: Apache-2.0
// KyberBench: a bench with kyber on it, and the steps of the worked examples.
//
// Steps:      words separated by blanks. A bio in the notation of docs/spec/kyber.md 10 joins the
//             burst of worker 0, `1:BIO` that of worker 1; `|` ends the bursts and drains, `;` ends
//             them and 10 ms pass, `!` ends them and completes the oldest request, `*` ends them
//             and completes everything one by one, the queue running after each; `quiesce` and
//             `unquiesce` end them, too.
#pragma once

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "bench.hpp"
#include "sched/kyber.hpp"

namespace elevd::sched::test {

struct KyberBench {
  struct Options {
    std::uint32_t depth = 1024;  ///< more than there are tokens
    std::uint32_t nr_requests = 256;
    unsigned workers = 1;
  };
  Bench bench;
  Kyber* elevator = nullptr;
  std::string dispatched;  ///< what was issued, joined by blanks

  KyberBench() : KyberBench(Options{}) {}
  explicit KyberBench(Options options)
      : bench({.workers = options.workers, .depth = options.depth}) {
    auto made = std::make_unique<Kyber>();
    elevator = made.get();
    bench.queue().set_elevator(std::move(made));
    bench.queue().set_nr_requests(options.nr_requests);
    bench.on_issue = [this](const Request& rq) {
      dispatched += describe_briefly(rq) + " ";
      elevator->check();
    };
  }
  ~KyberBench() { bench.release_all(); }

  void play(std::string_view steps) {
    std::istringstream words{std::string(steps)};
    const auto end_bursts = [&] {
      for (unsigned w = 0; w < bench.workers(); ++w) bench.flush_plug(w);
      bench.settle();
    };
    for (std::string word; words >> word;) {
      const bool on_one = word.starts_with("1:");
      const std::string bio = on_one ? word.substr(2) : word;
      if (std::string_view("RWDZF").find(bio[0]) != std::string_view::npos) {
        bench.submit(bio, on_one ? 1 : 0);
        continue;
      }
      end_bursts();
      bench.step(word);
    }
    end_bursts();
  }
};

}  // namespace elevd::sched::test
