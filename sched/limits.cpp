// SPDX-License-Identifier: Apache-2.0
#include "limits.hpp"

#include <algorithm>

#include "assertion.hpp"

namespace elevd::sched {
namespace {

Sectors in_sectors(Bytes bytes) { return {bytes.value >> kSectorShift}; }

std::uint64_t round_down(std::uint64_t value, std::uint64_t step) { return value - value % step; }

/// Reads and writes: the limit, moved down so that the piece ends on a physical block when the
/// limit leaves at least one, else on a logical one.
Sectors data_piece(const Limits& limits, Op op, Sector start, Sectors length) {
  const Sectors most = max_request_sectors(limits, op, start);
  // max_segments x max_segment_size binds only for disks with few or small segments.
  const Sectors by_segments{limits.max_segments * in_sectors(limits.max_segment_size).value};
  const std::uint64_t limit = std::min(most.value, by_segments.value);
  if (length.value <= limit) return length;
  const std::uint64_t physical = in_sectors(limits.physical_block).value;
  const std::uint64_t logical = in_sectors(limits.logical_block).value;
  const std::uint64_t end = round_down(start.value + limit, physical);
  if (end > start.value) return {end - start.value};
  return {std::max(round_down(limit, logical), logical)};
}

/// The piece is at most the limit rounded down to the granularity, and ends so that the next one
/// begins on a granularity boundary.
Sectors discard_piece(const Limits& limits, Sector start, Sectors length) {
  const std::uint64_t granularity =
      std::max<std::uint64_t>(in_sectors(limits.discard_granularity).value, 1);
  std::uint64_t most = round_down(limits.max_discard.value, granularity);
  if (most == 0) most = limits.max_discard.value;
  ELEVD_ASSERT(most != 0);
  if (length.value <= most) return length;
  std::uint64_t piece = most;
  const std::uint64_t over = (start.value + piece) % granularity;
  if (piece > over) piece -= over;
  return {piece};
}

/// The limit is no more than a number of sectors: the next piece must begin on a block all the
/// same.
Sectors zeroes_piece(const Limits& limits, Sectors length) {
  ELEVD_ASSERT(limits.max_write_zeroes.value != 0);
  if (length <= limits.max_write_zeroes) return length;
  const std::uint64_t logical = in_sectors(limits.logical_block).value;
  return {std::max(round_down(limits.max_write_zeroes.value, logical), logical)};
}

}  // namespace

Sectors max_request_sectors(const Limits& limits, Op op, Sector start) {
  if (op == Op::discard) return limits.max_discard;
  if (op == Op::write_zeroes) return limits.max_write_zeroes;
  if (limits.chunk.value == 0) return limits.max_sectors;
  const std::uint64_t to_boundary = limits.chunk.value - start.value % limits.chunk.value;
  return {std::min(limits.max_sectors.value, to_boundary)};
}

Sectors first_piece(const Limits& limits, Op op, Sector start, Sectors length) {
  switch (op) {
    case Op::read:
    case Op::write:
      return data_piece(limits, op, start, length);
    case Op::discard:
      return discard_piece(limits, start, length);
    case Op::write_zeroes:
      return zeroes_piece(limits, length);
    case Op::flush:
      return length;
  }
  return length;
}

std::uint32_t segments(const Limits& limits, Op op, Sectors length) {
  if (op != Op::read && op != Op::write) return 1;
  const std::uint64_t size = limits.max_segment_size.value;
  return static_cast<std::uint32_t>((length.bytes().value + size - 1) / size);
}

}  // namespace elevd::sched
