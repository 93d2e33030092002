// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace elevd::torture {
namespace {

struct Report {
  std::uint64_t seed = 0;
  std::function<void()> dump;
  std::mutex one_at_a_time;
};

Report& report() {
  static Report the_report;
  return the_report;
}

}  // namespace

void prepare_reports(std::uint64_t seed, std::function<void()> dump) {
  report().seed = seed;
  report().dump = std::move(dump);
}

void fail(const char* format, ...) {
  report().one_at_a_time.lock();  // never unlocked: who comes second waits for the end
  std::va_list arguments;
  va_start(arguments, format);
  std::printf("FAILED: ");
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf(" (--seed %llu)\n", static_cast<unsigned long long>(report().seed));
  if (report().dump) report().dump();
  std::fflush(stdout);
  std::_Exit(1);
}

}  // namespace elevd::torture
