// SPDX-License-Identifier: Apache-2.0
// Control: the FUSE connection that DIR/sys is, from mounting to unmounting.
//
// Owns:       the connection, its thread, the handles of open files.
// Thread:     start, stop and the destructor: one thread, not the control thread. The connection is
//             served by the control thread alone, which never waits for a disk: a store that needs
//             a frozen queue is handed to a ChangeRunner and answered later, from any thread.
// Time:       files show the time of the mount.
// Invariants: (1) each store is answered exactly once;
//             (2) nothing is cached by the kernel: what appears in the tree is seen at once;
//             (3) a file with an unanswered store is given a new kernel inode when it is looked up
//                 again. (The kernel locks the inode during a write, and an open with O_TRUNC waits
//                 for that lock: a second `echo` would hang, where it has to wait in our line, be
//                 interruptible, or get EBUSY.)
// See also:   sysfs/tree.hpp, sysfs/file_rules.hpp; docs/spec/sysfs.md section 1,
//             docs/spec/fuse.md sections 3, 4, 6.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/error.hpp"
#include "sysfs/tree.hpp"

namespace elevd::daemon {

/// A write(2) that waits for its change. Dropped without an answer, it answers EIO. Any thread.
class PendingStore {
 public:
  virtual ~PendingStore() = default;

  /// Answers: 0, the store is done; else an errno. Only the first call counts; none matters once
  /// the connection has stopped.
  virtual void finish(int error) = 0;

  /// Whether the caller got a signal (^C) and wants to be let go, with EINTR if nothing was
  /// changed.
  [[nodiscard]] virtual bool interrupted() const = 0;

  /// `callback` is called once when that happens, on the control thread, or at once if it already
  /// has. It must not wait, and may still be running on its thread when finish() returns: let it
  /// hold what it uses. Not called after an answer.
  virtual void on_interrupt(std::function<void()> callback) = 0;
};

/// Carries changes out.
class ChangeRunner {
 public:
  virtual ~ChangeRunner() = default;
  /// Called on the control thread; must not wait. `disk` is the name of a disk that was in the tree
  /// when the store came.
  virtual void run(const std::string& disk, sysfs::Change change,
                   std::unique_ptr<PendingStore> store) = 0;
};

/// What the control thread does besides, whenever a descriptor is readable. It must not wait.
struct Errand {
  int descriptor = -1;  ///< -1: there is none
  std::function<void()> run = {};
};

class Control {
 public:
  /// Mounts at `mount_point`, an existing directory, and starts to serve. `tree` and `runner`
  /// outlive the Control. `on_gone` is called on the control thread, once, if somebody else
  /// unmounts (then stop() is still to be called, by another thread). Error: kExitDirectory.
  [[nodiscard]] static Result<std::unique_ptr<Control>> start(const std::string& mount_point,
                                                              sysfs::Tree& tree,
                                                              ChangeRunner& runner,
                                                              std::function<void()> on_gone,
                                                              Errand errand = {});
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Ends the thread, answers what is pending with EINTR, unmounts (lazily, if in use). Idempotent.
  void stop();

 private:
  class Connection;
  explicit Control(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

}  // namespace elevd::daemon
