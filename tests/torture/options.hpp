// SPDX-License-Identifier: Apache-2.0
// Options: what the command line of the torture test says.
#pragma once

#include <cstdint>
#include <string>

namespace elevd::torture {

struct Options {
  std::uint64_t seed = 0;       ///< --seed; fresh when not given
  std::uint64_t bios = 60'000;  ///< --bios: the test ends with the round in which so many are done
  unsigned workers = 2;         ///< --workers, 1..16
  unsigned disks = 3;           ///< --disks, 1..8
  std::uint32_t depth = 4;      ///< --depth: hardware tags of a disk, 1..1024
  unsigned patience = 20;       ///< --patience: seconds without an answer until that is a failure
  bool elevators = true;        ///< --no-elevators: scheduler none all the time
  bool freezes = true;          ///< --no-freezes: nothing is changed while it runs
  bool small_rounds = false;    ///< --small-rounds: many ends that nothing repairs
  bool verbose = false;         ///< --verbose: a line every second
};

/// Reads the command line; a mistake ends the program with status 2.
[[nodiscard]] Options parse(int count, char** arguments);

}  // namespace elevd::torture
