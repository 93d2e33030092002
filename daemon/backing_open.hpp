// SPDX-License-Identifier: Apache-2.0
// What the files that implement backings share. For backing*.cpp and their tests only.
//
// Owns:       nothing.
// Thread:     any; called while a backing is opened.
#pragma once

#include <memory>
#include <string>

#include "backing.hpp"

namespace elevd::daemon {

// Largest discard and write zeroes of what has no limit of its own: all sectors that 32 bits count,
// as the measured loop device (`docs/spec/sysfs.md` section 3, discard_max_bytes).
inline constexpr std::uint64_t kUnlimitedBytes = 4294966784;

inline constexpr unsigned kSmallestBlock = 512;
inline constexpr unsigned kLargestBlock = 4096;

// The errors of open_backing(); `name` is the backing as the user wrote it.
tl::unexpected<Error> backing_error(int code, const std::string& name, const std::string& what);

// Sets the block sizes of `geometry` and rounds its bytes down (with a message). `smallest` is the
// block size that the backing needs; physical_block and io_min are what it reports, and grow with
// the logical block.
Result<void> settle_blocks(const BackingOptions& options, const std::string& name,
                           unsigned smallest, Geometry& geometry);

Result<std::unique_ptr<Backing>> open_path_backing(const BackingOptions& options);
Result<std::unique_ptr<Backing>> open_ram_backing(const BackingOptions& options);
Result<std::unique_ptr<Backing>> open_null_backing(const BackingOptions& options);

}  // namespace elevd::daemon
