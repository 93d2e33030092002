// SPDX-License-Identifier: Apache-2.0
#include "issuer_cache.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace elevd::daemon {
namespace {

// ioprio_get(2); the header of Linux 6.1 is no C++.
constexpr int kWhoProcess = 1;
constexpr unsigned kClassNone = 0;

}  // namespace

sched::IoPriority ask_io_priority(std::uint32_t id) {
  if (id == 0) return {};
  const long value = syscall(SYS_ioprio_get, kWhoProcess, id);
  if (value < 0) return {};
  const sched::IoPriority priority{static_cast<std::uint16_t>(value)};
  // No class set: the kernel's default, which is best effort in the middle.
  if (priority.io_class() == kClassNone) return {};
  // Levels above 7 are hints for the device, which no scheduler looks at.
  return sched::IoPriority::make(priority.io_class(), priority.level());
}

}  // namespace elevd::daemon
