// SPDX-License-Identifier: Apache-2.0
// Writers: many sequential writers of one region with one write outstanding each, on a slow device
// that serves one request at a time (docs/spec/plug-and-merge.md section 5, "Warning").
//
// Thread:     one.
// Time:       the bench's: a request takes 300 us where the one before ended, else 3 ms.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <deque>
#include <string>

#include "bench.hpp"

namespace elevd::sched::test {

struct Writers {
  unsigned writers = 64;
  std::size_t total = 2048;  ///< writes of 4 KiB
  std::string words;         ///< attributes of each: "/sync"
  bool issuers = false;      ///< each writer is an issuer of its own, else all are one
  bool contended = false;    ///< every bio merge finds the lock held
  bool held = false;         ///< every insertion does, too; REQUIRES: tags for all
};

struct Written {
  std::size_t requests = 0;  ///< that the device got
  Duration took;
};

/// REQUIRES: a bench with an elevator and nothing in it.
inline Written run_writers(Bench& bench, const Writers& what) {
  bench.queue().contend_bio_merges(what.contended);
  std::deque<std::string> ready;
  for (unsigned n = 0; n < what.writers; ++n) {
    ready.push_back("/i" + std::to_string(what.issuers ? n + 1 : 1U));
  }
  std::size_t submitted = 0;
  const auto submit = [&] {
    for (; !ready.empty() && submitted < what.total; ready.pop_front()) {
      const std::string bio = "W" + std::to_string(8 * submitted++) + what.words + ready.front();
      what.held ? bench.each_contended(bio) : bench.each(bio);
    }
    bench.settle();
  };
  const Instant begin = bench.now();
  Sector head;
  std::size_t answered = 0;
  submit();
  while (answered < what.total) {
    if (bench.held.empty()) {
      bench.advance({1'000'000});  // an elevator that waits
      bench.queue().run_later(bench.worker());
      bench.settle();
      continue;
    }
    const Request& rq = *bench.held.front();
    bench.advance({rq.start == head ? 300'000 : 3'000'000});
    head = rq.end();
    bench.complete();
    bench.settle();
    for (; answered < bench.answered_log.size(); ++answered) {
      const std::string& name = bench.answered_log[answered];
      ready.push_back(name.substr(name.rfind("/i")));
    }
    submit();
  }
  CHECK((bench.stats().merge_skips != 0) == (what.contended || what.held));
  return {bench.issued_log.size(), bench.now() - begin};
}

}  // namespace elevd::sched::test
