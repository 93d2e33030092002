// SPDX-License-Identifier: Apache-2.0
#include "scratch.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace elevd::daemon::testing {
namespace {

std::string default_base() {
  const char* base = std::getenv("TMPDIR");
  return base != nullptr && *base != '\0' ? base : "/var/tmp";
}

}  // namespace

Scratch::Scratch() : Scratch(default_base()) {}

Scratch::Scratch(const std::string& base) {
  std::string name = base + "/elevd-test-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error(base + ": no directory can be made: " + std::strerror(errno));
  }
  path_ = std::filesystem::canonical(name).string();
}

Scratch::~Scratch() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string Scratch::file(const std::string& name, std::uint64_t bytes) const {
  std::string path = *this / name;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  const bool made = fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0;
  if (fd >= 0) close(fd);
  if (!made) throw std::runtime_error(path + ": cannot be made");
  return path;
}

bool exists(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0;
}

InChild::InChild(const std::function<bool()>& body) {
  std::array<int, 2> answer{};
  std::array<int, 2> hold{};
  if (pipe2(answer.data(), O_CLOEXEC) != 0 || pipe2(hold.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe");
  }
  pid_ = fork();
  if (pid_ == 0) {
    close(hold[1]);
    close(answer[0]);
    // What `body` keeps stays alive while this process waits: it is the caller's lambda that owns.
    const char worked = body() ? 1 : 0;
    char byte = 0;
    if (write(answer[1], &worked, 1) == 1) {
      [[maybe_unused]] const ssize_t let_go = read(hold[0], &byte, 1);
    }
    _exit(0);
  }
  close(answer[1]);
  close(hold[0]);
  hold_ = hold[1];
  char worked = 0;
  worked_ = pid_ > 0 && read(answer[0], &worked, 1) == 1 && worked == 1;
  close(answer[0]);
}

InChild::~InChild() { kill(); }

void InChild::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(hold_);
  pid_ = -1;
}

AlignedBuffer::AlignedBuffer(std::size_t length, unsigned seed)
    : data_(static_cast<std::byte*>(std::aligned_alloc(4096, (length + 4095) / 4096 * 4096))),
      length_(length) {
  for (std::size_t i = 0; i < length; ++i) {
    data_[i] = static_cast<std::byte>(seed == 0 ? 0 : (i * 31 + i / 4096 + seed) & 0xff);
  }
}

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

bool AlignedBuffer::operator==(const AlignedBuffer& other) const {
  return length_ == other.length_ && std::equal(data_, data_ + length_, other.data_);
}

bool AlignedBuffer::all_zero() const {
  return std::all_of(data_, data_ + length_, [](std::byte one) { return one == std::byte{0}; });
}

}  // namespace elevd::daemon::testing
