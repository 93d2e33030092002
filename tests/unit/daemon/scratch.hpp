// SPDX-License-Identifier: Apache-2.0
// Scratch, InChild: directories and processes that a test of the daemon room makes and gets rid of.
//
// Owns:       Scratch its directory; InChild its process.
// Thread:     the test's.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace elevd::daemon::testing {

inline constexpr std::uint64_t kMebibyte = 1 << 20;

// A directory of its own, removed with everything in it.
class Scratch {
 public:
  // Below $TMPDIR, else /var/tmp: a file system with direct I/O, as far as this machine has one.
  Scratch();
  // Below `base`.
  explicit Scratch(const std::string& base);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Makes a file of `bytes`, all of it a hole, and returns its path.
  std::string file(const std::string& name, std::uint64_t bytes) const;

 private:
  std::string path_;
};

bool exists(const std::string& path);

// Runs `body` in a forked child, which then waits until it is let go or killed. `body` returns
// whether it worked.
class InChild {
 public:
  explicit InChild(const std::function<bool()>& body);
  ~InChild();
  InChild(const InChild&) = delete;
  InChild& operator=(const InChild&) = delete;

  bool worked() const { return worked_; }
  pid_t pid() const { return pid_; }
  // SIGKILL, and waits until the process is gone.
  void kill();

 private:
  pid_t pid_ = -1;
  int hold_ = -1;
  bool worked_ = false;
};

// Memory aligned for direct I/O, filled with a pattern of `seed`.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::size_t length, unsigned seed = 0);
  ~AlignedBuffer();
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  std::byte* data() { return data_; }
  std::size_t size() const { return length_; }
  bool operator==(const AlignedBuffer& other) const;
  bool all_zero() const;

 private:
  std::byte* data_;
  std::size_t length_;
};

}  // namespace elevd::daemon::testing
