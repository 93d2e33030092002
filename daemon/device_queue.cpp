// SPDX-License-Identifier: Apache-2.0
#include "device_queue.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <limits>

#include "descriptor.hpp"

namespace elevd::daemon {
namespace {

// The number in a file of `queue`, 0 when there is none.
std::uint64_t read_number(int queue, const char* name) {
  const Descriptor file{openat(queue, name, O_RDONLY | O_CLOEXEC)};
  if (!file) return 0;
  std::array<char, 32> text{};
  const ssize_t length = read(file.get(), text.data(), text.size());
  std::uint64_t value = 0;
  if (length > 0) std::from_chars(text.data(), text.data() + length, value);
  return value;
}

unsigned read_small(int queue, const char* name) {
  const std::uint64_t value = read_number(queue, name);
  return value <= std::numeric_limits<unsigned>::max() ? static_cast<unsigned>(value) : 0;
}

}  // namespace

DeviceQueue read_device_queue(unsigned device_major, unsigned device_minor,
                              const std::string& root) {
  const std::string device = fmt::format("{}/{}:{}", root, device_major, device_minor);
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  Descriptor queue{open((device + "/queue").c_str(), kFlags)};
  // A partition has no queue of its own; the entry is a symbolic link into its disk's directory.
  if (!queue) queue.reset(open((device + "/../queue").c_str(), kFlags));
  if (!queue) return {};
  DeviceQueue limits;
  limits.found = true;
  limits.physical_block = read_small(queue.get(), "physical_block_size");
  limits.io_min = read_small(queue.get(), "minimum_io_size");
  limits.io_opt = read_small(queue.get(), "optimal_io_size");
  limits.rotational = read_number(queue.get(), "rotational") != 0;
  limits.discard_granularity = read_small(queue.get(), "discard_granularity");
  limits.discard_max_bytes = read_number(queue.get(), "discard_max_bytes");
  limits.write_zeroes_max_bytes = read_number(queue.get(), "write_zeroes_max_bytes");
  return limits;
}

}  // namespace elevd::daemon
