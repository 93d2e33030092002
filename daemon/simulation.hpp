// SPDX-License-Identifier: Apache-2.0
// Simulation: runs a scenario: the real block layer, tasks, jobs and a clock that is not one.
//
// Owns:       everything it makes.
// Thread:     one.
// Time:       virtual; same scenario and options, same bytes.
// Invariants: the rules of docs/spec/scenario.md section 3.
// See also:   scenario.hpp (the file), simulated_disk.hpp (queue and device),
// simulation_output.hpp.
#pragma once

#include <string>

#include "daemon/scenario.hpp"
#include "daemon/simulation_output.hpp"

namespace elevd::daemon {

inline constexpr int kSimulationFailed = 1;  ///< an expectation
inline constexpr int kSimulationBad = 2;     ///< the file, or a store was refused
inline constexpr int kSimulationStuck = 3;   ///< bios wait and nothing is due

struct SimulationResult {
  int status = 0;
  std::string output;    ///< for standard output
  std::string messages;  ///< for standard error, whole lines
};

[[nodiscard]] SimulationResult simulate(const scenario::Scenario& scenario, OutputOptions options);

/// The same from the text of a file, which messages name `file`.
[[nodiscard]] SimulationResult simulate_text(std::string_view text, std::string_view file,
                                             OutputOptions options);

}  // namespace elevd::daemon
