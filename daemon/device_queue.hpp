// SPDX-License-Identifier: Apache-2.0
// DeviceQueue: what the kernel tells of the queue of a block device, from /sys/dev/block.
//
// Owns:       nothing; plain values.
// Thread:     any. Reads a handful of small files.
#pragma once

#include <cstdint>
#include <string>

namespace elevd::daemon {

// Sizes in bytes, 0 where the kernel says nothing (no such device, no such attribute).
struct DeviceQueue {
  bool found = false;  // there is a queue directory
  unsigned physical_block = 0;
  unsigned io_min = 0;
  unsigned io_opt = 0;
  bool rotational = false;
  unsigned discard_granularity = 0;
  std::uint64_t discard_max_bytes = 0;
  std::uint64_t write_zeroes_max_bytes = 0;
};

// The queue of a device; for a partition that of its disk. Never fails: see `found`. `root` is
// /sys/dev/block, or a copy of it in a test.
DeviceQueue read_device_queue(unsigned device_major, unsigned device_minor,
                              const std::string& root = "/sys/dev/block");

}  // namespace elevd::daemon
