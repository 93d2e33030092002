// SPDX-License-Identifier: Apache-2.0
#include "mounts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <optional>

#include "descriptor.hpp"

namespace elevd::daemon {
namespace {

bool is_octal(char c) { return c >= '0' && c <= '7'; }

// Cuts the text up to the next `separator` off the front of `rest`.
std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view head = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return head;
}

template <class Number>
bool parse_number(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end;
}

// "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE SUPER"
std::optional<Mount> parse_line(std::string_view line) {
  Mount mount;
  if (!parse_number(take_until(line, ' '), mount.id)) return std::nullopt;
  if (!parse_number(take_until(line, ' '), mount.parent_id)) return std::nullopt;
  if (!parse_number(take_until(line, ':'), mount.device_major)) return std::nullopt;
  if (!parse_number(take_until(line, ' '), mount.device_minor)) return std::nullopt;
  mount.root = unescape_octal(take_until(line, ' '));
  mount.mount_point = unescape_octal(take_until(line, ' '));
  if (!mount.mount_point.starts_with('/')) return std::nullopt;
  take_until(line, ' ');
  while (!line.empty()) {
    if (take_until(line, ' ') != "-") continue;
    mount.type = unescape_octal(take_until(line, ' '));
    mount.source = unescape_octal(take_until(line, ' '));
    if (mount.type.empty()) return std::nullopt;
    return mount;
  }
  return std::nullopt;
}

// Runs fusermount3, its complaints thrown away. Returns its exit status, or -1 when it did not run.
int run_fusermount(const std::string& path, bool lazy) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // The daemon blocks the signals it waits for; a child must not inherit that.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);

  std::string program = "fusermount3";
  std::string options = lazy ? "-uz" : "-u";
  std::string end = "--";
  std::string target = path;
  std::array<char*, 5> arguments{program.data(), options.data(), end.data(), target.data(),
                                 nullptr};
  pid_t child = -1;
  const int error =
      posix_spawnp(&child, program.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -1;

  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::string unescape_octal(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] <= '3' && is_octal(text[i + 1]) &&
        is_octal(text[i + 2]) && is_octal(text[i + 3])) {
      const int value = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
      plain += static_cast<char>(value);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::vector<Mount> parse_mountinfo(std::string_view text) {
  std::vector<Mount> mounts;
  while (!text.empty()) {
    if (std::optional<Mount> mount = parse_line(take_until(text, '\n'))) {
      mounts.push_back(std::move(*mount));
    }
  }
  return mounts;
}

Result<std::vector<Mount>> read_mounts() {
  static constexpr const char* kPath = "/proc/self/mountinfo";
  const auto failed = [] {
    const int code = errno;
    return tl::unexpected(Error{
        code, fmt::format("{}: cannot be read: {}", kPath, std::strerror(code)), kExitDirectory});
  };
  const Descriptor file{open(kPath, O_RDONLY | O_CLOEXEC)};
  if (!file) return failed();
  std::string text;
  std::array<char, 16384> chunk{};
  for (;;) {
    const ssize_t got = read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed();
    if (got == 0) return parse_mountinfo(text);
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

bool is_below(std::string_view directory, std::string_view path) {
  if (directory == "/") return path.size() > 1 && path.front() == '/';
  return path.size() > directory.size() + 1 && path.starts_with(directory) &&
         path[directory.size()] == '/';
}

const Mount* find_mount_at(const std::vector<Mount>& mounts, std::string_view path) {
  for (auto mount = mounts.rbegin(); mount != mounts.rend(); ++mount) {
    if (mount->mount_point == path) return &*mount;
  }
  return nullptr;
}

int unmount(const std::string& path, bool lazy) {
  if (umount2(path.c_str(), UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) return 0;
  if (errno != EPERM) return errno;
  const auto count_at = [&path] {
    const auto mounts = read_mounts();
    if (!mounts) return std::ptrdiff_t{0};
    return std::count_if(mounts->begin(), mounts->end(),
                         [&path](const Mount& mount) { return mount.mount_point == path; });
  };
  const std::ptrdiff_t before = count_at();
  if (before == 0) return EINVAL;
  if (run_fusermount(path, lazy) == 0) return 0;
  // Its exit status is 1 for everything; the table tells whether it worked.
  if (count_at() < before) return 0;
  return lazy ? EPERM : EBUSY;
}

}  // namespace elevd::daemon
