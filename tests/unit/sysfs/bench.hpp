// SPDX-License-Identifier: Apache-2.0
// Bench: one disk in a tree, its files read and written by path, its changes applied on the spot.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "sched/request_queue.hpp"
#include "sysfs/tree.hpp"

namespace elevd::sysfs {

struct Bench {
  explicit Bench(sched::RequestQueue::Options options = {}) : queue(options) {
    disk.name = "disk0";
    disk.queue = &queue;
    disk.now = [] { return sched::Instant{}; };
    disk.sectors = 2097152;
    disk.sequence = 11;
    disk.backing = "/srv/disk0.img";
    disk.cpu_list = "0, 1";
    disk.read_ahead_kb = default_read_ahead_kb(queue.limits());
    REQUIRE(tree.add_disk(disk) == 0);
  }

  /// The inode of a path from the root; 0: there is none.
  [[nodiscard]] Inode inode(std::string_view path) const {
    Inode at = kRootInode;
    while (!path.empty()) {
      const std::size_t slash = path.find('/');
      const auto status = tree.lookup(at, path.substr(0, slash));
      if (!status) return 0;
      at = status->inode;
      path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1);
    }
    return at;
  }

  [[nodiscard]] Inode of_disk(std::string_view path) const {
    return inode("block/disk0/" + std::string(path));
  }

  [[nodiscard]] std::string show(std::string_view path) const {
    const auto text = tree.show(of_disk(path));
    return text ? *text : "errno " + std::to_string(text.error());
  }

  [[nodiscard]] Outcome outcome(std::string_view path, std::string_view text) const {
    return tree.store(of_disk(path), text);
  }

  /// Stores and applies; returns 0 or the errno.
  int store(std::string_view path, std::string_view text) const {
    const Outcome result = outcome(path, text);
    if (const auto* refused = std::get_if<Refused>(&result)) return refused->error;
    if (const auto* change = std::get_if<Change>(&result)) return carry_out(*change);
    return 0;
  }

  sched::RequestQueue queue;
  Disk disk;
  Tree tree;
};

/// A row of a table "what is written, what comes of it": errno, and what the file shows after.
struct StoreRow {
  std::string_view written;
  int error;
  std::string_view shown;
};

inline void check_rows(const Bench& bench, std::string_view path,
                       std::initializer_list<StoreRow> rows) {
  for (const StoreRow& row : rows) {
    CAPTURE(path);
    CAPTURE(row.written);
    CHECK(bench.store(path, row.written) == row.error);
    CHECK(bench.show(path) == row.shown);
  }
}

}  // namespace elevd::sysfs
