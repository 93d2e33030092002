// SPDX-License-Identifier: Apache-2.0
#include "daemon/issuer_cache.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace elevd::daemon {
namespace {

using sched::Instant;
using sched::IoPriority;

int asked = 0;

IoPriority count_and_answer(std::uint32_t id) {
  ++asked;
  return IoPriority::best_effort(id % 8);
}

TEST_SUITE("issuer cache") {
  TEST_CASE("a thread is asked for once a second") {
    asked = 0;
    IssuerCache cache(count_and_answer);
    CHECK(cache.priority(5, Instant{0}) == IoPriority::best_effort(5));
    CHECK(cache.priority(5, Instant{999'999'999}) == IoPriority::best_effort(5));
    CHECK(asked == 1);
    CHECK(cache.priority(5, Instant{1'000'000'000}) == IoPriority::best_effort(5));
    CHECK(asked == 2);
  }

  TEST_CASE("two threads of one place in the table do not get each other's answer") {
    asked = 0;
    IssuerCache cache(count_and_answer);
    CHECK(cache.priority(1, Instant{0}) == IoPriority::best_effort(1));
    CHECK(cache.priority(1 + 256 * 3 + 2, Instant{0}) == IoPriority::best_effort(3));
    CHECK(cache.priority(257, Instant{0}) == IoPriority::best_effort(1));
    CHECK(cache.priority(1, Instant{0}) == IoPriority::best_effort(1));
    CHECK(asked == 4);
  }

  TEST_CASE("without a priority, the policy and the nice value say the class and the level") {
    const struct {
      int policy, nice;
      IoPriority effective;
    } rows[] = {
        {SCHED_OTHER, -20, IoPriority::best_effort(0)},
        {SCHED_OTHER, -16, IoPriority::best_effort(0)},
        {SCHED_OTHER, -15, IoPriority::best_effort(1)},
        {SCHED_OTHER, 0, IoPriority::best_effort(4)},
        {SCHED_BATCH, 10, IoPriority::best_effort(6)},
        {SCHED_OTHER, 19, IoPriority::best_effort(7)},
        {SCHED_FIFO, 0, IoPriority::real_time(4)},
        {SCHED_RR, -20, IoPriority::real_time(0)},
        {SCHED_IDLE, 0, IoPriority::make(3, 4)},
        {SCHED_FIFO | 0x40000000, 5, IoPriority::real_time(5)},
    };
    for (const auto& row : rows) {
      CAPTURE(row.policy);
      CAPTURE(row.nice);
      const IoPriority priority = processor_priority(row.policy, row.nice);
      CHECK(priority.effective() == row.effective);
      CHECK(priority.io_class() == 0);
      CHECK(priority.chosen() == IoPriority{});
    }
  }

  TEST_CASE("the kernel is asked for the nice value of who set no priority") {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const int who_process = 1;
      if (syscall(SYS_ioprio_set, who_process, 0, 0) != 0) _exit(2);
      if (setpriority(PRIO_PROCESS, 0, 15) != 0) _exit(3);
      const IoPriority priority = ask_io_priority(static_cast<std::uint32_t>(getpid()));
      _exit(priority == IoPriority::unset(2, 7) ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }

  TEST_CASE("the kernel is asked, and who is gone is best effort 4") {
    CHECK(ask_io_priority(0) == IoPriority{});
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const int wanted = IoPriority::idle().value;
      const int who_process = 1;
      if (syscall(SYS_ioprio_set, who_process, 0, wanted) != 0) _exit(2);
      _exit(ask_io_priority(static_cast<std::uint32_t>(getpid())) == IoPriority::idle() ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    // The child is gone, and so is its thread id.
    CHECK(ask_io_priority(static_cast<std::uint32_t>(child)) == IoPriority{});
  }
}

}  // namespace
}  // namespace elevd::daemon
