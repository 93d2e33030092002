// SPDX-License-Identifier: Apache-2.0
// What the benches share: options, medians, places of random I/O.
//
// Thread:     any.
// Time:       the steady clock of the machine; nothing but the result depends on it.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace elevd::bench {

struct Options {
  unsigned rounds = 7;                      ///< of each variant, in turn
  std::chrono::milliseconds duration{250};  ///< of one measurement
  bool smoke = false;                       ///< only show that it works
};

/// "[--smoke] [ROUNDS]"; ends the program with status 2 on anything else.
inline Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const int rounds = std::atoi(argv[i]);
    if (word == "--smoke") {
      options = {2, std::chrono::milliseconds(5), true};
    } else if (rounds > 0 && rounds < 1000) {
      options.rounds = static_cast<unsigned>(rounds);
    } else {
      std::fprintf(stderr, "usage: %s [--smoke] [ROUNDS]\n", argv[0]);
      std::exit(2);
    }
  }
  return options;
}

/// printf to the end of `line`; less than 128 characters.
template <class... Values>
void append(std::string& line, const char* format, Values... values) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  line += text.data();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Sectors of 4 KiB blocks anywhere in 4 TiB; no two of them are neighbours but by chance.
inline std::vector<std::uint64_t> random_places() {
  std::vector<std::uint64_t> places(1U << 16U);
  std::uint64_t state = 0x9e3779b97f4a7c15U;
  for (std::uint64_t& place : places) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    place = (state >> 34U) * 8;
  }
  return places;
}

}  // namespace elevd::bench
