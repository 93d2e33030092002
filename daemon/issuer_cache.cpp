// SPDX-License-Identifier: Apache-2.0
#include "issuer_cache.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace elevd::daemon {
namespace {

// ioprio_get(2); the header of Linux 6.1 is no C++.
constexpr int kWhoProcess = 1;
constexpr unsigned kClassNone = 0;

/// Of a thread that set none: docs/spec/bfq.md section 2.
sched::IoPriority ask_processor_priority(std::uint32_t id) {
  const int policy = sched_getscheduler(static_cast<pid_t>(id));
  errno = 0;
  const int nice = getpriority(PRIO_PROCESS, id);
  if (policy < 0 || (nice == -1 && errno != 0)) return {};
  return processor_priority(policy, nice);
}

}  // namespace

sched::IoPriority processor_priority(int policy, int nice) {
  constexpr int kResetOnFork = 0x40000000;  // SCHED_RESET_ON_FORK, which comes with the policy
  constexpr unsigned kRealTime = 1;
  constexpr unsigned kBestEffort = 2;
  constexpr unsigned kIdle = 3;
  const unsigned level = sched::IoPriority::level_of_nice(nice);
  switch (policy & ~kResetOnFork) {
    case SCHED_FIFO:
    case SCHED_RR:
      return sched::IoPriority::unset(kRealTime, level);
    case SCHED_IDLE:
      return sched::IoPriority::unset(kIdle, level);
    default:
      return sched::IoPriority::unset(kBestEffort, level);
  }
}

sched::IoPriority ask_io_priority(std::uint32_t id) {
  if (id == 0) return {};
  const long value = syscall(SYS_ioprio_get, kWhoProcess, id);
  if (value < 0) return {};
  const sched::IoPriority priority{static_cast<std::uint16_t>(value)};
  if (priority.io_class() == kClassNone) return ask_processor_priority(id);
  // Levels above 7 are hints for the device, which no scheduler looks at.
  return sched::IoPriority::make(priority.io_class(), priority.level());
}

}  // namespace elevd::daemon
