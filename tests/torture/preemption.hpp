// SPDX-License-Identifier: Apache-2.0
// Preemption: interrupts the thread that made it at any instruction, for a random time, as a
// scheduler would do, only far more often. That opens windows of a few instructions.
//
// Owns:       a timer whose signal (SIGUSR1) goes to its thread; the handler spins.
// Thread:     made, used and destroyed by the thread that is to be interrupted.
// Time:       an interrupt every `every_us` microseconds, up to 30 us long; none for 0, nor in a
//             ThreadSanitizer build, which delivers signals at system calls only.
#pragma once

#include <ctime>

namespace elevd::torture {

class Preemption {
 public:
  explicit Preemption(unsigned every_us);
  ~Preemption();
  Preemption(const Preemption&) = delete;
  Preemption& operator=(const Preemption&) = delete;

 private:
  timer_t timer_{};
  bool armed_ = false;
};

}  // namespace elevd::torture
