// SPDX-License-Identifier: Apache-2.0
// Disk: what the attribute tables know about one disk.
//
// Owns:       the tunables that change nothing but what they show; the rest is in the queue.
// Thread:     facts are set before the disk is added to a Tree and then constant; atomics are for
// any
//             thread.
// Time:       `now` reads the clock that the queue's statistics are kept in.
// Invariants: a Disk and its queue outlive their place in the Tree and every Change made from them.
// See also:   queue_attributes.cpp, disk_attributes.cpp, tree.hpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "sched/request_queue.hpp"
#include "sysfs/scheduler.hpp"

namespace elevd::sysfs {

class Tree;

struct Disk {
  std::string name;
  sched::RequestQueue* queue = nullptr;
  Tree* tree = nullptr;  ///< set by Tree::add_disk
  std::span<const SchedulerType> schedulers = available_schedulers();
  std::function<sched::Instant()> now;

  // Facts.
  std::atomic<std::uint64_t> sectors{0};  ///< of 512 bytes
  bool read_only = false;
  bool volatile_cache = true;  ///< the device has one: `write back` can be switched on
  bool direct_io = false;      ///< the backing is read and written around the page cache
  std::uint64_t sequence = 0;  ///< `diskseq`: increases whenever a medium is attached
  std::string backing;         ///< path, or ram:SIZE and the like
  std::string cpu_list;        ///< CPUs of the workers as "0, 1"

  // Tunables that only are remembered.
  std::atomic<std::uint32_t> read_ahead_kb{128};  ///< see default_read_ahead_kb
  std::atomic<std::uint32_t> rq_affinity{1};
  std::atomic<bool> stable_writes{false};
  std::atomic<bool> add_random{false};
  std::atomic<bool> iostats_passthrough{false};

  // What stores ask of whoever has the disk. Called under the lock of the Tree:
  // they must not wait.
  std::function<void()> run_queue;                      ///< has a worker run it; empty: nobody can
  std::function<int(std::string_view)> device_command;  ///< empty: no modelled device; 0 or errno
  std::function<std::string()> device_state;            ///< the text of `device`
};

/// What read_ahead_kb becomes whenever limits change: 128, or twice the optimal I/O size, or, for a
/// rotational disk that has none, twice max_sectors_kb (docs/spec/sysfs.md section 3). To be stored
/// once when the disk is made.
[[nodiscard]] std::uint32_t default_read_ahead_kb(const sched::Limits& limits);

}  // namespace elevd::sysfs
