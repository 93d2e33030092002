// SPDX-License-Identifier: Apache-2.0
#include "backing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "backing_open.hpp"
#include "log.hpp"
#include "sched/assertion.hpp"

namespace elevd::daemon {

const std::byte* Backing::direct_read_view(std::uint64_t /*offset*/, std::size_t /*length*/) const {
  return nullptr;
}

void Backing::require_inside(std::uint64_t offset, std::uint64_t length) const {
  ELEVD_ASSERT(offset <= geometry_.bytes && length <= geometry_.bytes - offset);
}

tl::unexpected<Error> backing_error(int code, const std::string& name, const std::string& what) {
  return tl::unexpected(Error{code, fmt::format("{}: {}", name, what), kExitBacking});
}

Result<void> settle_blocks(const BackingOptions& options, const std::string& name,
                           unsigned smallest, Geometry& geometry) {
  const unsigned asked = options.logical_block_size;
  if (asked != 0 &&
      (!std::has_single_bit(asked) || asked < kSmallestBlock || asked > kLargestBlock)) {
    return backing_error(
        EINVAL, name,
        fmt::format("logical_block_size is {}, expected 512, 1024, 2048 or 4096", asked));
  }
  smallest = std::max(smallest, kSmallestBlock);
  if (smallest > kLargestBlock) {
    return backing_error(
        EINVAL, name,
        fmt::format("its blocks have {} bytes, expected at most {}", smallest, kLargestBlock));
  }
  if (asked != 0 && asked < smallest) {
    return backing_error(EINVAL, name,
                         fmt::format("logical_block_size is {}, expected at least {}, which this "
                                     "backing needs",
                                     asked, smallest));
  }
  geometry.logical_block = asked != 0 ? asked : smallest;
  geometry.physical_block = std::max(geometry.physical_block, geometry.logical_block);
  geometry.io_min = std::max(geometry.io_min, geometry.physical_block);

  const std::uint64_t rest = geometry.bytes % geometry.logical_block;
  if (geometry.bytes - rest == 0) {
    return backing_error(EINVAL, name,
                         fmt::format("its size is {} bytes, expected at least one block of {}",
                                     geometry.bytes, geometry.logical_block));
  }
  if (rest != 0) {
    log(Level::notice,
        "{}: its size {} is not a multiple of the logical block size {}: the last {} bytes are not "
        "used",
        name, geometry.bytes, geometry.logical_block, rest);
    geometry.bytes -= rest;
  }
  return {};
}

Result<std::unique_ptr<Backing>> open_backing(const BackingOptions& options) {
  switch (options.source) {
    case BackingSource::path:
      return open_path_backing(options);
    case BackingSource::ram:
      return open_ram_backing(options);
    case BackingSource::null:
      return open_null_backing(options);
  }
  __builtin_unreachable();
}

}  // namespace elevd::daemon
