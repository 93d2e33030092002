// SPDX-License-Identifier: Apache-2.0
// Bio: one I/O as it was submitted, before and after it became part of a request.
//
// Owns:       nothing. A front end embeds it and keeps it alive until it is finished.
// Thread:     the worker that submitted it (`owner`) until it is in a request; then whoever holds
//             the request. `pending` and `error` are shared by the pieces of a cut bio.
// Invariants: (1) linked in at most one of: a gate, a wait queue, a worker's list;
//             (2) finished exactly once, when `pending` falls to 0;
//             (3) start and length are whole logical blocks once admitted.
// See also:   request.hpp (what it becomes part of), docs/spec/plug-and-merge.md section 1.
#pragma once

#include <atomic>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/parent_from_member.hpp>
#include <cstdint>

#include "mailbox.hpp"
#include "units.hpp"

namespace elevd::sched {

class RequestQueue;
namespace bi = boost::intrusive;

enum class Op : std::uint8_t { read, write, flush, discard, write_zeroes };
inline constexpr unsigned kOps = 5;

/// I/O priority as ioprio_set(2) packs it: class << 13 | level. Without a class, the bits of the
/// hint say what class and level the submitter's processor time comes to, if that is known.
struct IoPriority {
  std::uint16_t value = kBestEffort4;

  static constexpr std::uint16_t kBestEffort4 = (2U << 13) | 4U;
  static constexpr unsigned kHintShift = 3;
  [[nodiscard]] constexpr unsigned io_class() const { return value >> 13U; }
  [[nodiscard]] constexpr unsigned level() const { return value & 7U; }
  /// As its submitter set it; best effort 4 if it set none.
  [[nodiscard]] constexpr IoPriority chosen() const {
    return io_class() == 0 ? IoPriority{} : *this;
  }
  /// The same, but by processor time if it set none: docs/spec/bfq.md section 2.
  [[nodiscard]] constexpr IoPriority effective() const {
    const unsigned by_time = (value >> kHintShift) & 3U;
    return io_class() == 0 && by_time != 0 ? make(by_time, level()) : chosen();
  }
  friend constexpr bool operator==(IoPriority, IoPriority) = default;

  static constexpr IoPriority real_time(unsigned level) { return make(1, level); }
  static constexpr IoPriority best_effort(unsigned level) { return make(2, level); }
  static constexpr IoPriority idle() { return make(3, 0); }
  /// The level of who set none, by nice value (-20 to 19): docs/spec/bfq.md section 2.
  static constexpr unsigned level_of_nice(int nice) { return static_cast<unsigned>(nice + 20) / 5; }
  /// None was set; by processor time it is that class (1 to 3) and level.
  static constexpr IoPriority unset(unsigned io_class, unsigned level) {
    return {static_cast<std::uint16_t>((io_class << kHintShift) | (level & 7U))};
  }
  static constexpr IoPriority make(unsigned io_class, unsigned level) {
    return {static_cast<std::uint16_t>((io_class << 13U) | (level & 7U))};
  }
};

/// The cgroup of a submitter, groups.hpp.
using GroupId = std::uint32_t;
inline constexpr GroupId kRootGroup = 0;

using BioFlags = std::uint16_t;
inline constexpr BioFlags kBioFua = 1;       ///< on stable storage before it completes
inline constexpr BioFlags kBioPreflush = 2;  ///< flush the cache first
inline constexpr BioFlags kBioNoMerge = 4;   ///< stays alone in its request
inline constexpr BioFlags kBioSync = 8;      ///< somebody waits for it (every read; most writes)
inline constexpr BioFlags kBioAtHead = 16;   ///< its request is inserted at head
inline constexpr BioFlags kBioNoWait = 32;   ///< fails with EAGAIN instead of waiting
inline constexpr BioFlags kBioWoken = 64;    ///< (internal) holds a wake-up for a tag
inline constexpr BioFlags kBioTraced = 128;  ///< (internal) Q was reported
inline constexpr BioFlags kBioSingle = 256;  ///< submitted alone: each of its pieces is a burst

/// Whether somebody waits for an I/O with these flags; for a read always.
[[nodiscard]] constexpr bool is_sync(Op op, BioFlags flags) {
  return op == Op::read || (flags & kBioSync) != 0;
}

struct Bio {
  Op op = Op::read;
  BioFlags flags = 0;
  IoPriority priority;
  std::uint16_t owner = 0;        ///< index of the worker it came in on
  std::uint8_t depth_class = 0;   ///< (internal) the class it asks for a tag in, tag_map.hpp
  std::uint64_t wait_number = 0;  ///< (internal) its place among those that wait
  Sector start;                   ///< first sector not yet in a request
  Sectors length;                 ///< sectors not yet in a request
  Sector origin;                  ///< start as submitted (set by RequestQueue::submit)
  std::uint64_t issuer = 0;       ///< thread id of the submitter, 0 unknown
  GroupId group = kRootGroup;     ///< of the submitter
  RequestQueue* queue = nullptr;  ///< set by RequestQueue::submit
  Bio* parent = nullptr;          ///< the submitted bio this one is a piece of
  Bio* next = nullptr;            ///< next bio of the same request, in list order

  std::atomic<std::uint32_t> pending{0};  ///< pieces not finished, plus one while more are to come
  std::atomic<int> error{0};              ///< errno of the first piece that failed, 0 none

  bi::list_member_hook<> link;  ///< see invariant 1
  MailNode mail;                ///< for a message to the owner

  Bio() = default;
  Bio(const Bio&) = delete;
  Bio& operator=(const Bio&) = delete;

  [[nodiscard]] Sector end() const { return start + length; }
  /// The bio that was submitted: this one, or what it was cut from.
  [[nodiscard]] Bio& root() { return parent != nullptr ? *parent : *this; }
  [[nodiscard]] const Bio& root() const { return parent != nullptr ? *parent : *this; }
  /// "Synchronous and not a write": not throttled by async_depth (docs/spec/tags-and-depth.md 4).
  [[nodiscard]] bool is_sync_read() const { return op == Op::read; }
  /// Notes a failure of this bio; on a piece, of the bio it was cut from. The first one wins.
  void fail(int error_number) {
    int none = 0;
    root().error.compare_exchange_strong(none, error_number, std::memory_order_relaxed);
  }
};

using BioList = bi::list<Bio, bi::member_hook<Bio, bi::list_member_hook<>, &Bio::link>,
                         bi::constant_time_size<false>>;

/// The bio around a mail node of kind woken_bio or finished_bio.
inline Bio& bio_of(MailNode& node) { return *bi::get_parent_from_member(&node, &Bio::mail); }

}  // namespace elevd::sched
