// SPDX-License-Identifier: Apache-2.0
// Request: neighbouring bios that go to the device as one, and the tag that allows it.
//
// Owns:       its split piece; links bios whose owner keeps them alive until they are finished.
// Thread:     the worker that allocated it while it is in that worker's plug; then under the lock
//             of the list it is in; from dispatch to completion the worker that issued it.
// Invariants: (1) linked in at most one of: a plug, a software queue, the residual list, a list of
//                 the flush machine, a list in flight through functions; an elevator may use
//                 `sort_hook` and `hash_hook` besides;
//             (2) bios are in ascending order and contiguous (unless the operation has no place);
//             (3) one object per tag: the index in its TagMap is the tag it was allocated with.
// See also:   merge.hpp (who may join), docs/spec/plug-and-merge.md sections 1, 4.
#pragma once

#include <atomic>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstdint>

#include "bio.hpp"
#include "units.hpp"

namespace elevd::sched {

using RequestFlags = std::uint16_t;
inline constexpr RequestFlags kRqNoMerge = 1;      ///< nobody may join any more
inline constexpr RequestFlags kRqFlushSeq = 2;     ///< steps through the flush machine
inline constexpr RequestFlags kRqIoStat = 4;       ///< counted in stat
inline constexpr RequestFlags kRqAtHead = 8;       ///< inserted at head
inline constexpr RequestFlags kRqStarted = 16;     ///< given to the driver
inline constexpr RequestFlags kRqFlush = 32;       ///< the FLUSH command of a flush machine
inline constexpr RequestFlags kRqInElevator = 64;  ///< inserted into an elevator, not dispatched
/// The elevator was contended, so nobody looked whether its bio could join a queued request.
inline constexpr RequestFlags kRqLookupSkipped = 128;

/// Steps of a request in the flush machine, docs/spec/plug-and-merge.md section 8.
inline constexpr std::uint8_t kStepPreflush = 1;
inline constexpr std::uint8_t kStepData = 2;
inline constexpr std::uint8_t kStepPostflush = 4;

/// What a search for a place looks at is in one line of the cache, what lists link in the next.
struct alignas(64) Request {
  bi::set_member_hook<> sort_hook;
  Sector start;
  Sectors length;
  void* elevator_data = nullptr;  ///< the elevator's, from insert to finish
  std::uint64_t elevator_word = 0;

  bi::list_member_hook<> link;
  bi::list_member_hook<> fifo_hook;
  bi::list_member_hook<bi::link_mode<bi::auto_unlink>> hash_hook;
  Instant inserted;  ///< when the elevator got it
  std::uint64_t issuer = 0;

  Bio* first = nullptr;
  Bio* last = nullptr;
  RequestQueue* queue = nullptr;
  std::uint32_t segment_count = 0;
  Op op = Op::read;
  std::uint8_t steps = 0;  ///< steps of the flush machine still to do
  IoPriority priority;
  BioFlags bio_flags = 0;  ///< fua, preflush, sync of its bios
  RequestFlags flags = 0;
  std::int32_t tag = -1;           ///< hardware tag, -1 none yet
  std::int32_t internal_tag = -1;  ///< scheduler tag, -1 without scheduler
  std::uint16_t worker = 0;        ///< index of the worker that allocated it
  std::uint16_t issuing_worker = 0;
  int error = 0;  ///< errno of its completion
  GroupId group = kRootGroup;
  Instant allocated;                ///< start of its time in `stat`
  Instant issued;                   ///< when the driver got it
  void* driver_data = nullptr;      ///< the driver's, while it has the request
  void* elevator_issuer = nullptr;  ///< as elevator_data

  /// What the debug tree shows of it while it is at the driver: show_at_driver(); 0: it is not.
  std::atomic<std::uint64_t> shown{0};

  Bio split_piece;  ///< the front piece of a cut bio, when this request serves one

  Request() = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  [[nodiscard]] Sector end() const { return start + length; }
  [[nodiscard]] bool is_write() const { return op != Op::read; }
};

using RequestList =
    bi::list<Request, bi::member_hook<Request, bi::list_member_hook<>, &Request::link>,
             bi::constant_time_size<false>>;

}  // namespace elevd::sched
