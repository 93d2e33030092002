// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

// Result: a value, or what is wrong with the words of a user.
//
// Owns:       its text.
// Thread:     any; plain values.
// Time:       none.
// Invariants: Error::what is one line without a final newline or full stop.
// See also:   command_line.hpp, toml_file.hpp (which put the place in front of the text).
namespace elevd::config {

struct Error {
  int code = 0;      // an errno: EINVAL for a bad word, else why a file could not be read
  std::string what;  // "'12X' is not a size, expected ..."
};

template <class T>
using Result = tl::expected<T, Error>;

}  // namespace elevd::config
