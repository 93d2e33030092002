// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

// FakeTree: a directory that looks like one that elevd serves, made of plain files.
//
// Owns:       the directory, removed at the end.
// Thread:     one.
// Time:       none.
// Invariants: nothing outside the directory is touched.
// See also:   elevctl_tree.hpp.
namespace elevd::daemon::testing {

class FakeTree {
 public:
  FakeTree();
  ~FakeTree();
  FakeTree(const FakeTree&) = delete;
  FakeTree& operator=(const FakeTree&) = delete;

  // DIR, and DIR/sys/block.
  std::string directory() const { return root_; }
  std::string block() const { return root_ / "sys" / "block"; }

  // Makes or replaces the file at `path` below sys/block, directories included.
  void write(std::string_view path, std::string_view text) const;
  // A symbolic link there, to an absolute target.
  void link(std::string_view path, std::string_view target) const;
  std::string read(std::string_view path) const;

  // The files of a disk of 256 MiB under mq-deadline.
  void add_disk(std::string_view name) const;

 private:
  std::filesystem::path root_;
};

}  // namespace elevd::daemon::testing
