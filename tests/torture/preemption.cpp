// SPDX-License-Identifier: Apache-2.0
#include "preemption.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdint>

#include "report.hpp"
#include "sched/lock.hpp"

namespace elevd::torture {
namespace {

#if defined(ELEVD_TSAN)
constexpr bool kPossible = false;
#else
constexpr bool kPossible = true;
#endif
constexpr unsigned kMostSpins = 1024;

thread_local std::uint64_t interrupts = 0;

extern "C" void interrupt(int) {
  // Async-signal-safe: nothing but a thread's own word.
  const std::uint64_t n = ++interrupts * 0x9e3779b97f4a7c15U;
  for (unsigned spins = (n >> 40U) % kMostSpins; spins > 0; --spins) sched::cpu_relax();
}

}  // namespace

Preemption::Preemption(unsigned every_us) {
  if (!kPossible || every_us == 0) return;
  struct sigaction action {};
  action.sa_handler = interrupt;
  action.sa_flags = SA_RESTART;
  check(sigaction(SIGUSR1, &action, nullptr) == 0, "sigaction failed");
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGUSR1;
  event._sigev_un._tid = gettid();
  check(timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0, "timer_create failed");
  armed_ = true;
  const itimerspec times{{0, static_cast<long>(every_us) * 1000}, {0, 1000}};
  check(timer_settime(timer_, 0, &times, nullptr) == 0, "timer_settime failed");
}

Preemption::~Preemption() {
  if (armed_) timer_delete(timer_);
}

}  // namespace elevd::torture
