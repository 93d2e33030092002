// SPDX-License-Identifier: Apache-2.0
// Tree: the directories and files of DIR/sys, made from the attribute tables of the disks.
//
// Owns:       the nodes. Disks belong to somebody else and are only referred to.
// Thread:     any; one mutex, held while a show or store of a table runs. Not on the data path.
// Time:       none.
// Invariants: (1) an inode number is given once and never again, so what a vanished file was called
//                 is told apart from what never was: ENODEV and ENOENT;
//             (2) after remove_disk returned, nothing here touches that Disk any more (Changes made
//                 before do: whoever holds them drops them first);
//             (3) stores never wait.
// See also:   attribute.hpp (the rows), docs/spec/sysfs.md.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "sysfs/attribute.hpp"

namespace elevd::sysfs {

using Inode = std::uint64_t;
inline constexpr Inode kRootInode = 1;

/// What stat(2) shows of a node.
struct NodeStatus {
  Inode inode = 0;
  bool directory = false;
  std::uint32_t permissions = 0;
  std::uint64_t size = 0;
  std::uint32_t links = 1;
  std::optional<std::uint32_t> user;   ///< as chown set it; none: the daemon's
  std::optional<std::uint32_t> group;  ///< likewise
};

struct Entry {
  std::string name;
  Inode inode = 0;
  bool directory = false;
};

/// Every error is an errno. ENODEV: the node is gone; ENOENT: there is no such node.
class Tree {
 public:
  Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  /// Adds block/NAME and kernel/debug/block/NAME. Returns 0, or EEXIST.
  [[nodiscard]] int add_disk(Disk& disk);
  /// Takes them away. No effect if there is no such disk.
  void remove_disk(std::string_view name);
  /// Replaces the files of the directory `path` below block/NAME (say "queue/iosched"); the old
  /// ones are gone, an empty table takes the directory away. `rows` must live as long as the Tree.
  /// Returns 0, ENOENT (no such disk, or nothing to put it in) or ENOTDIR.
  [[nodiscard]] int set_directory(std::string_view disk, std::string_view path,
                                  std::span<const Attribute> rows);

  /// Shows the files of the scheduler that `disk` has now: replaces queue/iosched and, in the debug
  /// tree, sched/. No effect if there is no such disk any more.
  void publish_scheduler(std::string_view disk, const SchedulerType& type);

  [[nodiscard]] tl::expected<NodeStatus, int> lookup(Inode parent, std::string_view name) const;
  [[nodiscard]] tl::expected<NodeStatus, int> status(Inode inode) const;
  /// Names in order, "." and ".." first. ENOTDIR.
  [[nodiscard]] tl::expected<std::vector<Entry>, int> entries(Inode inode) const;

  /// Whether the file may be opened so: 0, EISDIR, or EACCES for what it cannot do, whoever asks.
  [[nodiscard]] int check_open(Inode inode, bool for_reading, bool for_writing) const;
  [[nodiscard]] tl::expected<std::string, int> show(Inode inode) const;
  /// `text` is StoreInput::text.
  [[nodiscard]] Outcome store(Inode inode, std::string_view text) const;

  /// Permission bits; 0 or an errno.
  [[nodiscard]] int set_permissions(Inode inode, std::uint32_t permissions);
  [[nodiscard]] int set_owner(Inode inode, std::optional<std::uint32_t> user,
                              std::optional<std::uint32_t> group);

 private:
  struct Node {
    Inode parent = 0;
    std::string name;
    const Attribute* row = nullptr;  ///< null: a directory
    Disk* disk = nullptr;
    unsigned worker = 0;  ///< whose directory it is in
    std::uint32_t permissions = 0;
    std::optional<std::uint32_t> user;
    std::optional<std::uint32_t> group;
    std::map<std::string, Inode, std::less<>> children;
  };

  // All of these: mutex_ is held.
  [[nodiscard]] tl::expected<const Node*, int> find(Inode inode) const;
  [[nodiscard]] Node* find_mutable(Inode inode);
  [[nodiscard]] Inode child(Inode parent, std::string_view name) const;  // 0: none
  [[nodiscard]] Inode walk(Inode from, std::string_view path) const;     // 0: none
  [[nodiscard]] NodeStatus describe(Inode inode, const Node& node) const;
  [[nodiscard]] int replace_directory(Inode top, std::string_view path,
                                      std::span<const Attribute> rows);
  Inode add_node(Inode parent, std::string_view name, Disk* disk, const Attribute* row);
  void add_directories(Inode parent, Disk& disk, std::span<const DirectoryTable> directories);
  void remove_node(Inode inode);

  mutable std::mutex mutex_;
  std::unordered_map<Inode, Node> nodes_;
  Inode next_ = kRootInode;
  Inode block_ = 0;
  Inode debug_block_ = 0;
};

}  // namespace elevd::sysfs
