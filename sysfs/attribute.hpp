// SPDX-License-Identifier: Apache-2.0
// Attribute: one file of the tree as a row of a table: name, mode, show, store.
//
// Owns:       nothing; rows are constants.
// Thread:     show and store are called by the Tree, one at a time. They never wait: what needs a
//             frozen queue is returned as a Change, which somebody else carries out.
// Time:       none of their own; Disk::now where a row needs it.
// Invariants: (1) the maker sets the mode, so mode and store cannot disagree;
//             (2) what a store refuses changes nothing;
//             (3) meaning (ranges that depend on the state of a queue) is checked before a Change
//             is
//                 made, and whatever the change depends on is read again inside it.
// See also:   tree.hpp, queue_attributes.cpp, disk_attributes.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>

#include "sysfs/disk.hpp"

namespace elevd::sysfs {

/// What a change is about, for whoever decides what may meet what: two of scheduler queue, a depth
/// change refuses with EBUSY whatever it meets, and is refused by a scheduler change the same way.
enum class ChangeKind : std::uint8_t { scheduler, depth, limits };

/// Whether a change that comes is refused with EBUSY while another is under way, or waits for it.
[[nodiscard]] constexpr bool refuses(ChangeKind under_way, ChangeKind coming) {
  if (under_way == ChangeKind::limits || coming == ChangeKind::limits) return false;
  return under_way == ChangeKind::depth || coming == ChangeKind::depth;
}

/// Work for a frozen queue. The functions refer to the Disk; each is called at most once, in this
/// order, by the thread that carries the change out, and no other change of that disk in between.
struct Change {
  ChangeKind kind = ChangeKind::limits;
  /// While no bio is inside the queue; returns 0 or an errno.
  std::function<int()> apply;
  std::string disk;  ///< set by Tree::store
  /// Before the freeze: allocates. 0, or the errno that ends the change. May be empty or left out;
  /// apply then does it.
  std::function<int()> prepare = {};
  /// After the thaw, if all went well: what the tree shows changes. May be empty.
  std::function<void()> publish = {};
};

/// Carries a change out where nothing is to be frozen, as nothing is inside. 0 or an errno.
[[nodiscard]] inline int carry_out(const Change& change) {
  int error = change.prepare ? change.prepare() : 0;
  if (error == 0) error = change.apply();
  if (error == 0 && change.publish) change.publish();
  return error;
}

/// The store is complete.
struct Done {};
/// The store is refused; nothing changed.
struct Refused {
  int error = 0;
};
using Outcome = std::variant<Done, Refused, Change>;

/// The text of a file, or the errno of reading it.
using Shown = tl::expected<std::string, int>;

struct Attribute {
  std::string_view name;
  std::uint16_t mode = 0;                                         ///< permission bits
  std::string (*show)(Disk& disk) = nullptr;                      ///< null: always `constant`
  Outcome (*store)(Disk& disk, std::string_view text) = nullptr;  ///< null: not writable
  std::string_view constant;
  Shown (*show_or_fail)(Disk& disk) = nullptr;                           ///< instead of `show`
  std::string (*show_of_worker)(Disk& disk, unsigned worker) = nullptr;  ///< likewise
};

using Show = std::string (*)(Disk&);
using Store = Outcome (*)(Disk&, std::string_view);

[[nodiscard]] constexpr Attribute read_only(std::string_view name, Show show) {
  return {name, 0444, show, nullptr, {}};
}
[[nodiscard]] constexpr Attribute read_write(std::string_view name, Show show, Store store) {
  return {name, 0644, show, store, {}};
}
/// What belongs to a scheduler, and is gone with it: ENODEV.
[[nodiscard]] constexpr Attribute tunable(std::string_view name, Shown (*show)(Disk&),
                                          Store store) {
  return {name, 0644, nullptr, store, {}, show};
}
/// A file of the debug tree, for its owner only.
[[nodiscard]] constexpr Attribute debug_file(std::string_view name, Show show) {
  return {name, 0400, show, nullptr, {}};
}
/// One that takes commands.
[[nodiscard]] constexpr Attribute debug_command(std::string_view name, Show show, Store store) {
  return {name, 0600, show, store, {}};
}
/// One in the directory of a worker.
[[nodiscard]] constexpr Attribute worker_debug_file(std::string_view name,
                                                    std::string (*show)(Disk&, unsigned)) {
  return {name, 0400, nullptr, nullptr, {}, nullptr, show};
}
/// What the debug tree shows of a scheduler.
[[nodiscard]] constexpr Attribute scheduler_debug_file(std::string_view name,
                                                       Shown (*show)(Disk&)) {
  return {name, 0400, nullptr, nullptr, {}, show};
}
/// `text` with its newline.
[[nodiscard]] constexpr Attribute constant(std::string_view name, std::string_view text) {
  return {name, 0444, nullptr, nullptr, text};
}
/// Shows `text` whatever was written.
[[nodiscard]] constexpr Attribute writable_constant(std::string_view name, std::string_view text,
                                                    Store store) {
  return {name, 0644, nullptr, store, text};
}

[[nodiscard]] constexpr bool sorted_by_name(std::span<const Attribute> rows) {
  return std::is_sorted(rows.begin(), rows.end(),
                        [](const Attribute& a, const Attribute& b) { return a.name < b.name; });
}

/// A directory of every disk: `path` is relative to the disk's own, "" for that one itself. A
/// directory stands after the one it is in.
struct DirectoryTable {
  std::string_view path;
  std::span<const Attribute> files;
  bool per_worker = false;  ///< there is one for each worker, its number behind the path
};

/// Files of block/DISK and block/DISK/queue.
[[nodiscard]] std::span<const Attribute> disk_files();
[[nodiscard]] std::span<const Attribute> queue_files();

/// What is below block/DISK and below kernel/debug/block/DISK.
[[nodiscard]] std::span<const DirectoryTable> disk_directories();
[[nodiscard]] std::span<const DirectoryTable> debug_directories();
/// What the debug directory of a disk on a modelled device has besides.
[[nodiscard]] std::span<const Attribute> modelled_device_debug_files();

/// Files of queue/iosched and of the debug directory sched/, by scheduler.
[[nodiscard]] std::span<const Attribute> mq_deadline_files();
[[nodiscard]] std::span<const Attribute> mq_deadline_debug_files();
[[nodiscard]] std::span<const Attribute> kyber_files();
[[nodiscard]] std::span<const Attribute> kyber_debug_files();
/// The same of hctx0/sched/.
[[nodiscard]] std::span<const Attribute> kyber_hardware_queue_debug_files();
[[nodiscard]] std::span<const Attribute> bfq_files();
[[nodiscard]] std::span<const Attribute> bfq_debug_files();

}  // namespace elevd::sysfs
