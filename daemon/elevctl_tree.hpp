// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

// Tree: the attribute files of the disks below a directory, elevd's or the kernel's.
//
// Owns:       the directory's name; no descriptor stays open.
// Thread:     any.
// Time:       a store may take as long as the disk needs to drain; a signal ends it (EINTR).
// Invariants: (1) one store is one write(2) (docs/spec/sysfs.md section 1);
//             (2) no path leaves the directory of the disk by "..".
// See also:   elevctl_command.hpp.
namespace elevd::daemon {

class Tree {
 public:
  template <class T>
  using Result = config::Result<T>;

  // `directory` is DIR: the tree is DIR/sys/block.
  explicit Tree(std::string_view directory);

  // DIR/sys/block, for messages.
  const std::string& block_directory() const { return block_; }

  // Names of the disks, sorted. Error: the errno of opening the directory.
  Result<std::vector<std::string>> disks() const;

  // Whether the disk has a directory. False for names that are no single path component.
  bool has_disk(std::string_view disk) const;

  // Attributes by the paths read() takes, sorted: the files below queue/, one level of
  // directories deep (iosched/), and the disk's own as "disk/NAME". Empty if there are none.
  std::vector<std::string> attributes(std::string_view disk) const;

  // Whether there is such a file, at any depth, and whether its mode lets anybody write.
  bool has_attribute(std::string_view disk, std::string_view attribute) const;
  bool is_writable(std::string_view disk, std::string_view attribute) const;

  // The text of an attribute, final newline included. `attribute` is a path below queue/, or
  // below the disk's directory when it starts with "disk/". Errors: errno of open or read;
  // EINVAL for a path that is empty, absolute or has an empty, "." or ".." component.
  Result<std::string> read(std::string_view disk, std::string_view attribute) const;

  // Stores value and a newline, as echo does. Error: errno of open or write; EINVAL as read();
  // E2BIG when less than the whole was taken (text longer than 4096 bytes).
  Result<void> store(std::string_view disk, std::string_view attribute,
                     std::string_view value) const;

 private:
  Result<std::string> path_of(std::string_view disk, std::string_view attribute) const;

  std::string block_;
};

}  // namespace elevd::daemon
