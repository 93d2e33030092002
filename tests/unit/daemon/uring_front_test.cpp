// SPDX-License-Identifier: Apache-2.0
// Which queues a worker serves on the ring transport: every CPU's, once (docs/spec/fuse.md 8.3: one
// that nobody serves hangs the whole mount).
#include "daemon/uring_front.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "daemon/fuse_uring.hpp"

namespace elevd::daemon {

TEST_SUITE("uring_front") {
  TEST_CASE("the queues of a worker are the CPUs that are its index modulo the workers") {
    CHECK(queues_of_worker(0, 2, 5) == std::vector<unsigned>{0, 2, 4});
    CHECK(queues_of_worker(1, 2, 5) == std::vector<unsigned>{1, 3});
    CHECK(queues_of_worker(0, 1, 3) == std::vector<unsigned>{0, 1, 2});
    CHECK(queues_of_worker(3, 4, 2).empty());
  }

  TEST_CASE("every queue is served by exactly one worker") {
    for (unsigned workers = 1; workers <= 9; ++workers) {
      for (unsigned cpus = 1; cpus <= 17; ++cpus) {
        std::vector<unsigned> served;
        for (unsigned index = 0; index < workers; ++index) {
          const std::vector<unsigned> queues = queues_of_worker(index, workers, cpus);
          // The first worker has the most: the rings are sized by it.
          CHECK(queues.size() <= queues_of_worker(0, workers, cpus).size());
          served.insert(served.end(), queues.begin(), queues.end());
        }
        std::sort(served.begin(), served.end());
        std::vector<unsigned> all(cpus);
        for (unsigned cpu = 0; cpu < cpus; ++cpu) all[cpu] = cpu;
        CHECK(served == all);
      }
    }
  }

  TEST_CASE("the structures are those of the protocol") {
    CHECK(offsetof(RingHeader, operation) == 128);
    CHECK(offsetof(RingHeader, flags) == 256);
    CHECK(offsetof(RingHeader, commit_id) == 264);
    CHECK(offsetof(RingHeader, payload_bytes) == 272);
    CHECK(offsetof(RingCommand, commit_id) == 8);
    CHECK(offsetof(RingCommand, queue) == 16);
  }
}

}  // namespace elevd::daemon
