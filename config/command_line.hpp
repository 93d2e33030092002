// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "config/config.hpp"
#include "config/result.hpp"

// CommandLine: what `elevd` was asked to do.
//
// Owns:       nothing.
// Thread:     any.
// Time:       none.
// Invariants: (1) the command line wins over the file, word by word; disks of both are kept, the
//                 file's first, and a name in both is an error;
//             (2) nothing is printed and nothing ends the process here;
//             (3) an error is one line.
// See also:   toml_file.hpp, disk_builder.hpp.
namespace elevd::config {

// What the command line is read against; given by the caller, so that tests need no environment.
struct CommandLineContext {
  bool is_root = false;
  std::string runtime_directory;                 // $XDG_RUNTIME_DIR, empty if unset
  std::string version;                           // "0.1.0"
  std::span<const std::string_view> attributes;  // writable queue attributes, path below queue/
};

inline constexpr int kExitUsage = 2;

// Nothing to run.
struct Answer {
  int status = 0;    // 0: print to standard output and end; kExitUsage: an error, to standard error
  std::string text;  // 0: complete; else one line without program name and newline
};

using CommandLine = std::variant<DaemonConfig, Answer>;

// Reads the command line and, with --config, the file. argv[0] is skipped.
CommandLine parse_command_line(int argc, const char* const* argv,
                               const CommandLineContext& context);

// One --disk: NAME=BACKING[,key=value...]. `read_only` may stand without a value.
// Errors: EINVAL, "--disk NAME: key: what, expected ...".
Result<DiskConfig> parse_disk(std::string_view text, std::span<const std::string_view> attributes);

}  // namespace elevd::config
