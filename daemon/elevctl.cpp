// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "daemon/elevctl_command.hpp"

#ifndef ELEVD_VERSION
#error "ELEVD_VERSION is the version of the project, a string"
#endif

namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

int main(int argc, char** argv) {
  using elevd::daemon::ElevctlOutcome;
  ElevctlOutcome outcome;
  try {
    outcome = elevd::daemon::run_elevctl(argc, argv,
                                         {.is_root = ::geteuid() == 0,
                                          .runtime_directory = environment("XDG_RUNTIME_DIR"),
                                          .elevd_directory = environment("ELEVD_DIR"),
                                          .version = ELEVD_VERSION});
  } catch (const std::exception& failure) {
    outcome = {elevd::daemon::kElevctlRefused, "", failure.what()};
  }
  const bool is_printed =
      std::fputs(outcome.output.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (!is_printed) {
    std::fputs("elevctl: standard output: write error\n", stderr);
    return elevd::daemon::kElevctlRefused;
  }
  std::fputs(outcome.messages.c_str(), stderr);
  if (!outcome.error.empty()) std::fputs(("elevctl: " + outcome.error + "\n").c_str(), stderr);
  return outcome.status;
}
