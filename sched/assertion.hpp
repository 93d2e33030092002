// SPDX-License-Identifier: Apache-2.0
// Assertions that stay on in release builds: a broken invariant ends the program, it is never
// carried on with (docs/architecture.md, "Errors").
#pragma once

#include <cstdio>
#include <cstdlib>

namespace elevd::sched {

[[noreturn]] inline void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "elevd: %s:%d: broken invariant: %s\n", file, line, expression);
  std::abort();
}

}  // namespace elevd::sched

#define ELEVD_ASSERT(expression) \
  (static_cast<bool>(expression) \
       ? static_cast<void>(0)    \
       : ::elevd::sched::assertion_failed(#expression, __FILE__, __LINE__))
