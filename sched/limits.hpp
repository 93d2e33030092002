// SPDX-License-Identifier: Apache-2.0
// Limits: what a disk takes in one request, and where a bio must be cut.
//
// Owns:       nothing; plain values.
// Thread:     written only while the queue is frozen, read by workers inside it.
// Invariants: max_sectors <= max_hw_sectors; logical <= physical block; powers of two.
// See also:   docs/spec/plug-and-merge.md section 7 (splitting), docs/spec/sysfs.md section 3.
#pragma once

#include <cstdint>

#include "bio.hpp"
#include "units.hpp"

namespace elevd::sched {

/// Defaults are those of the measured loop device (docs/spec/sysfs.md section 3).
struct Limits {
  Bytes logical_block{512};
  Bytes physical_block{512};
  Bytes io_min{512};
  Bytes io_opt{0};
  Sectors max_sectors{2560};     ///< max_sectors_kb x 2: reads and writes are cut to this
  Sectors max_hw_sectors{2560};  ///< upper bound of max_sectors
  std::uint32_t max_segments = 128;
  Bytes max_segment_size{65536};
  Sectors chunk{0};  ///< I/O must not cross multiples of it; 0 none
  Bytes discard_granularity{4096};
  Sectors max_discard{8388607};     ///< 0: discard is off
  Sectors max_hw_discard{8388607};  ///< 0: not supported
  Sectors max_write_zeroes{8388607};
  bool write_back = true;  ///< volatile cache: flushes matter
  bool fua = false;        ///< the device does FUA itself
  bool rotational = false;
};

/// Largest default of max_sectors, whatever the hardware takes: 4 MiB.
inline constexpr Sectors kMaxDefaultSectors{8192};

/// Sectors of the first piece of a bio [start, start + length); `length` itself when it need not
/// be cut. Never 0 for a non-empty bio. Rule: docs/spec/plug-and-merge.md section 7.
[[nodiscard]] Sectors first_piece(const Limits& limits, Op op, Sector start, Sectors length);

/// Physical segments of a bio of that length: ceil(bytes / max_segment_size) for a payload, 1 for
/// an operation without one (docs/architecture.md, "Backings").
[[nodiscard]] std::uint32_t segments(const Limits& limits, Op op, Sectors length);

/// Most sectors a request of `op` starting at `start` may have.
[[nodiscard]] Sectors max_request_sectors(const Limits& limits, Op op, Sector start);

}  // namespace elevd::sched
