// SPDX-License-Identifier: Apache-2.0
// The end of a torture test that found something: a message, the seed, the state of everything.
//
// Thread:     any; the first one to fail ends the program.
#pragma once

#include <cstdint>
#include <functional>

namespace elevd::torture {

/// What every failure is reported with. Called once, before any other thread is started.
void prepare_reports(std::uint64_t seed, std::function<void()> dump);

/// Prints the message, the seed and the dump; ends the program with status 1.
[[noreturn, gnu::format(printf, 1, 2)]] void fail(const char* format, ...);

inline void check(bool holds, const char* what) {
  if (!holds) [[unlikely]] {
    fail("%s", what);
  }
}

}  // namespace elevd::torture
