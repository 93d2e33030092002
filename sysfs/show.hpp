// SPDX-License-Identifier: Apache-2.0
// The texts most files show: docs/spec/sysfs.md section 1.
//
// Thread:     any.
#pragma once

#include <fmt/format.h>

#include <string>

namespace elevd::sysfs {

template <class T>
[[nodiscard]] std::string line(const T& value) {
  return fmt::format("{}\n", value);
}

[[nodiscard]] inline std::string flag(bool on) { return on ? "1\n" : "0\n"; }

}  // namespace elevd::sysfs
