// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>

namespace elevd::torture {
namespace {

[[noreturn]] void refuse(std::string_view argument) {
  std::fprintf(
      stderr,
      "elevd_torture: '%.*s' is wrong\n"
      "usage: elevd_torture [--seed N] [--bios N] [--workers 1..16] [--disks 1..8]\n"
      "                     [--depth 1..1024] [--patience SECONDS] [--preempt MICROSECONDS]\n"
      "                     [--no-elevators] [--no-freezes] [--small-rounds] [--verbose]\n",
      static_cast<int>(argument.size()), argument.data());
  std::exit(2);
}

/// The argument after `at`, a whole number from `least` to `most`.
template <class Number>
Number number(int count, char** arguments, int& at, Number least, Number most) {
  const std::string_view name = arguments[at];
  if (++at >= count) refuse(name);
  const std::string_view text = arguments[at];
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) refuse(text);
  if (value < least || value > most) refuse(text);
  return value;
}

}  // namespace

Options parse(int count, char** arguments) {
  Options options;
  std::random_device device;
  options.seed = device();
  for (int at = 1; at < count; ++at) {
    const std::string_view name = arguments[at];
    if (name == "--seed") {
      options.seed = number<std::uint64_t>(count, arguments, at, 0, ~std::uint64_t{0});
    } else if (name == "--bios") {
      options.bios = number<std::uint64_t>(count, arguments, at, 1, ~std::uint64_t{0});
    } else if (name == "--workers") {
      options.workers = number<unsigned>(count, arguments, at, 1, 16);
    } else if (name == "--disks") {
      options.disks = number<unsigned>(count, arguments, at, 1, 8);
    } else if (name == "--depth") {
      options.depth = number<std::uint32_t>(count, arguments, at, 1, 1024);
    } else if (name == "--patience") {
      options.patience = number<unsigned>(count, arguments, at, 1, 3600);
    } else if (name == "--no-elevators") {
      options.elevators = false;
    } else if (name == "--no-freezes") {
      options.freezes = false;
    } else if (name == "--small-rounds") {
      options.small_rounds = true;
    } else if (name == "--verbose") {
      options.verbose = true;
    } else {
      refuse(name);
    }
  }
  return options;
}

}  // namespace elevd::torture
