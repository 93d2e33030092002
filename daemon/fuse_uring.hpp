// SPDX-License-Identifier: Apache-2.0
// The structures of FUSE over io_uring, which the headers of Debian 12 do not have.
// docs/spec/fuse.md sections 2, 8.1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace elevd::daemon {

/// Of INIT: bit 41, so bit 9 of flags2.
inline constexpr std::uint32_t kOverIoUring2 = 1U << (41 - 32);

/// cmd_op of a URING_CMD on the descriptor of a connection.
enum class RingCommandCode : std::uint32_t { register_entry = 1, commit_and_fetch = 2 };

/// In the command area of a 128-byte submission entry.
struct RingCommand {
  std::uint64_t flags = 0;
  std::uint64_t commit_id = 0;  ///< of the request that is answered; 0 when registering
  std::uint16_t queue = 0;      ///< a CPU number
  std::array<std::uint8_t, 6> padding{};
};
static_assert(sizeof(RingCommand) == 24);

/// Shared with the kernel, one per entry.
struct RingHeader {
  alignas(8) std::array<std::byte, 128> in_out;     ///< fuse_in_header, then fuse_out_header
  alignas(8) std::array<std::byte, 128> operation;  ///< fuse_write_in and the like
  std::uint64_t flags;
  std::uint64_t commit_id;
  std::uint32_t payload_bytes;
  std::uint32_t padding;
  std::uint64_t reserved;
};
static_assert(sizeof(RingHeader) == 288);

}  // namespace elevd::daemon
