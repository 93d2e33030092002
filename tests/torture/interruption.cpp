// SPDX-License-Identifier: Apache-2.0
// Nothing in this file may be instrumented itself: CMakeLists.txt leaves the folder out.
#include "interruption.hpp"

#include <sched.h>

namespace elevd::torture {
namespace {

/// Neither is a C++ atomic or needs construction: the hook comes before and after everything.
unsigned share = 0;
thread_local std::uint64_t state = 0;

[[gnu::no_instrument_function, gnu::noinline]] void interrupt(std::uint64_t random) {
  if ((random & 1U) != 0) {
    for (std::uint64_t yields = (random >> 1U) % 8; yields > 0; --yields) sched_yield();
    return;
  }
  const std::uint64_t spins = (random >> 1U) % ((random & 0xf00U) == 0 ? 20'000 : 1'000);
  for (std::uint64_t n = 0; n < spins; ++n) asm volatile("");
}

[[gnu::no_instrument_function]] inline void hook() {
  if (state == 0) return;
  const unsigned one_in = __atomic_load_n(&share, __ATOMIC_RELAXED);
  if (one_in == 0) return;
  state ^= state << 13U;  // xorshift64
  state ^= state >> 7U;
  state ^= state << 17U;
  if ((state >> 32U) % one_in == 0) interrupt(state & 0xffffffffU);
}

}  // namespace

void set_interruptions(unsigned one_in) { __atomic_store_n(&share, one_in, __ATOMIC_RELAXED); }

void take_part_in_interruptions(std::uint64_t seed, std::uint64_t stream) {
  state = (seed + 1) * 0x9e3779b97f4a7c15U ^ (stream + 1) * 0xd1342543de82ef95U;
  state |= 1U;
}

}  // namespace elevd::torture

extern "C" {

[[gnu::no_instrument_function]] void __cyg_profile_func_enter(void*, void*) {
  elevd::torture::hook();
}

[[gnu::no_instrument_function]] void __cyg_profile_func_exit(void*, void*) {
  elevd::torture::hook();
}
}
