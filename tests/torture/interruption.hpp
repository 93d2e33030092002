// SPDX-License-Identifier: Apache-2.0
// Interruption: stops a thread for a while between any two atomic operations of the code under
// test.
//
// The test and what it tortures are compiled with -finstrument-functions: the compiler calls a hook
// at every function's beginning and end, inlined ones too, and so around every access to an
// std::atomic. The hook sometimes yields or spins. That opens windows of a few instructions, which
// a preemption by the system would meet once in a day.
//
// Thread:     set_interruptions from any; the others by the thread that is to be interrupted.
#pragma once

#include <cstdint>

namespace elevd::torture {

/// From now on every `one_in`-th hook on average, of all threads that take part; 0: none.
void set_interruptions(unsigned one_in);

/// The calling thread takes part from now on.
void take_part_in_interruptions(std::uint64_t seed, std::uint64_t stream);

}  // namespace elevd::torture
