// SPDX-License-Identifier: Apache-2.0
// Directory: DIR, taken for one daemon, prepared for its mounts and tidied up after it.
//
// Owns:       the lock DIR/.lock, and every file and directory it made, which it removes again when
//             it is destroyed. The mounts are not its own: whoever mounts also unmounts.
// Thread:     the main thread, no other.
// Time:       none; clearing a dead mount without privilege waits for fusermount3.
// Invariants: (1) who holds the lock owns DIR: every elevd mount below it then is dead;
//             (2) nothing that elevd did not make is removed, hidden by a mount, or changed;
//             (3) no mount point is looked up (`docs/spec/fuse.md` section 12);
//             (4) what is made is entered into DIR/.lock first, so that after a kill the next
//                 daemon in DIR knows it for elevd's own and removes it in the end.
// See also:   design, sections 2 and 10; mounts.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "descriptor.hpp"
#include "error.hpp"
#include "mounts.hpp"

namespace elevd::daemon {

// What DIR/.lock says: the process that has it, and what elevd made, in the order it was made.
// "PID\n", then a line "made PATH\n" each.
struct LockRecord {
  int pid = 0;  // 0: unknown
  std::vector<std::string> made;
};
LockRecord parse_lock_record(std::string_view text);
std::string format_lock_record(const LockRecord& record);

class Directory {
 public:
  // Takes DIR: makes it as needed, locks it, clears dead elevd mounts and left-over files (a
  // message each), makes DIR/dev and DIR/sys. Call it in the process that will serve (the pid is
  // written down), before anything is mounted. Errors (kExitDirectory, one line naming the path):
  // in use by another elevd (EBUSY), DIR/dev or DIR/sys is something else than elevd needs (EEXIST,
  // ENOTDIR, ENOTEMPTY, EBUSY), a dead mount that cannot be removed, the errno of mkdir or open.
  static Result<Directory> take(const std::string& path);

  Directory(Directory&& other) noexcept = default;
  Directory& operator=(Directory&&) = delete;
  ~Directory();  // remove_all_made()

  // Absolute and canonical, no trailing '/'.
  const std::string& path() const { return path_; }
  // Where the control connection is mounted: DIR/sys, an empty directory.
  std::string control_path() const { return path_ + "/sys"; }
  std::string disk_path(std::string_view name) const;

  // Makes the file on which the connection of disk `name` is mounted and returns its path: regular,
  // empty, mode 0600, so that before the mount is there, and after it is gone, nobody else can
  // write into the bare file; the mount hides this mode. An empty regular file that is already
  // there is used and not removed later. Errors (kExitDirectory): something else is there (EEXIST),
  // something is mounted on it (EBUSY), the errno of open.
  Result<std::string> make_disk_file(std::string_view name);

  // Removes the file of one disk after its unmount, if make_disk_file() made it and it is still
  // empty.
  void remove_disk_file(std::string_view name);

  // Removes everything elevd made here, as far as it is empty and nothing is mounted on it, and
  // gives DIR up. REQUIRES: the own mounts are gone. A second call does nothing.
  void remove_all_made();

 private:
  Directory() = default;

  Result<void> make_directories(const std::string& path);
  Result<void> lock();
  Result<void> clear_dead_mounts();
  Result<void> clear_left_overs();
  Result<void> prepare(const std::string& path, bool must_be_empty);
  void note_made(const std::string& path);
  void forget_made(const std::string& path);
  bool write_record();
  bool remove_if_ours(const std::string& path, const std::vector<Mount>& mounts);

  std::string path_;
  Descriptor lock_;
  LockRecord record_;
};

}  // namespace elevd::daemon
