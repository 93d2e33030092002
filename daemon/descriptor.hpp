// SPDX-License-Identifier: Apache-2.0
// Descriptor: a file descriptor that is closed when its owner goes.
//
// Owns:       the descriptor, unless empty (-1).
// Thread:     a value; one owner at a time.
// Invariants: (1) get() is -1 or open; (2) it is closed exactly once.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace elevd::daemon {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  // Closes what is held and takes `fd` instead. errno is left as it was.
  void reset(int fd = -1) {
    if (fd_ >= 0) close_quietly(fd_);
    fd_ = fd;
  }

  // Gives the descriptor away without closing it.
  int release() { return std::exchange(fd_, -1); }

 private:
  static void close_quietly(int fd);

  int fd_ = -1;
};

inline void Descriptor::close_quietly(int fd) {
  const int saved = errno;
  ::close(fd);
  errno = saved;
}

}  // namespace elevd::daemon
