// SPDX-License-Identifier: Apache-2.0
#include "directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "log.hpp"

namespace elevd::daemon {
namespace {

constexpr std::string_view kMountType = "fuse.elevd";
constexpr std::string_view kMade = "made ";
constexpr mode_t kDirectoryMode = 0755;
constexpr mode_t kFileMode = 0600;

tl::unexpected<Error> directory_error(int code, const std::string& path, const std::string& what) {
  return tl::unexpected(Error{code, fmt::format("{}: {}", path, what), kExitDirectory});
}

std::string lock_path(const std::string& directory) { return directory + "/.lock"; }

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t got = pread(fd, chunk.data(), chunk.size(), static_cast<off_t>(text.size()));
    if (got <= 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

// REQUIRES: nothing is mounted at `path`.
bool is_empty_file(const std::string& path, bool any_mode) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 0 &&
         (any_mode || (status.st_uid == geteuid() && (status.st_mode & 07777) == kFileMode));
}

// Whether a record may name `path`: a file of an earlier version of itself, or of anyone who could
// write it, must not make us remove something outside DIR.
bool may_be_made(const std::string& directory, const std::string& path) {
  if (std::filesystem::path(path).lexically_normal() != path) return false;
  return is_below(directory, path) || path == directory || is_below(path, directory);
}

}  // namespace

LockRecord parse_lock_record(std::string_view text) {
  LockRecord record;
  const auto take_line = [&text] {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return line;
  };
  const std::string_view first = take_line();
  int pid = 0;
  const auto [stop, error] = std::from_chars(first.data(), first.data() + first.size(), pid);
  if (error == std::errc{} && stop == first.data() + first.size() && pid > 0) record.pid = pid;
  while (!text.empty()) {
    const std::string_view line = take_line();
    if (line.starts_with(kMade) && line.substr(kMade.size()).starts_with('/')) {
      record.made.emplace_back(line.substr(kMade.size()));
    }
  }
  return record;
}

std::string format_lock_record(const LockRecord& record) {
  std::string text = fmt::format("{}\n", record.pid);
  for (const std::string& path : record.made) text += fmt::format("{}{}\n", kMade, path);
  return text;
}

Result<Directory> Directory::take(const std::string& path) {
  Directory directory;
  if (path.empty() || path.find('\n') != std::string::npos) {
    return directory_error(EINVAL, path, "is not a usable directory name");
  }
  // Each step undoes itself on failure: the destructor removes what was made.
  for (int attempts = 3;; --attempts) {
    if (auto step = directory.make_directories(path); !step) return tl::unexpected(step.error());
    const Result<void> step = directory.lock();
    if (step) break;
    // An elevd that stops just now may have removed DIR between the two.
    if (step.error().code != ENOENT || attempts == 0) return tl::unexpected(step.error());
  }
  if (auto step = directory.clear_dead_mounts(); !step) return tl::unexpected(step.error());
  if (auto step = directory.clear_left_overs(); !step) return tl::unexpected(step.error());
  if (auto step = directory.prepare(directory.path_ + "/dev", false); !step) {
    return tl::unexpected(step.error());
  }
  if (auto step = directory.prepare(directory.control_path(), true); !step) {
    return tl::unexpected(step.error());
  }
  return directory;
}

Directory::~Directory() { remove_all_made(); }

std::string Directory::disk_path(std::string_view name) const {
  return fmt::format("{}/dev/{}", path_, name);
}

// mkdir -p; sets path_ to the canonical result. What is made here is put into the record by lock().
Result<void> Directory::make_directories(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  record_ = {};
  fs::path done;
  std::vector<fs::path> made;
  for (const fs::path& part : whole) {
    if (part.empty()) continue;  // a trailing '/'
    done /= part;
    if (mkdir(done.c_str(), kDirectoryMode) == 0) {
      made.push_back(done);
      continue;
    }
    const int code = errno;
    struct stat status {};
    if (code != EEXIST && lstat(done.c_str(), &status) != 0) {
      for (auto one = made.rbegin(); one != made.rend(); ++one) rmdir(one->c_str());
      return directory_error(code, done.string(),
                             fmt::format("cannot be made: {}", std::strerror(code)));
    }
  }
  const fs::path canonical = fs::canonical(done, error);
  std::error_code type_error;
  if (error || !fs::is_directory(canonical, type_error)) {
    const int code = error ? error.value() : ENOTDIR;
    for (auto one = made.rbegin(); one != made.rend(); ++one) rmdir(one->c_str());
    return directory_error(code, path,
                           fmt::format("{}, expected a directory", std::strerror(code)));
  }
  path_ = canonical.string();
  for (const fs::path& one : made) record_.made.push_back(fs::canonical(one, error).string());
  if (path_ == "/") {
    return directory_error(EINVAL, path, "is the root directory, expected a directory for elevd");
  }
  return {};
}

Result<void> Directory::lock() {
  const std::string path = lock_path(path_);
  for (;;) {
    Descriptor file{open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)};
    if (!file) {
      const int code = errno;
      return directory_error(code, path, fmt::format("cannot be opened: {}", std::strerror(code)));
    }
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      const int code = errno;
      if (code == EINTR) continue;
      if (code != EWOULDBLOCK) {
        return directory_error(code, path,
                               fmt::format("cannot be locked: {}", std::strerror(code)));
      }
      const int pid = parse_lock_record(read_all(file.get())).pid;
      return directory_error(
          EBUSY, path_,
          pid > 0 ? fmt::format("in use by another elevd (pid {})", pid)
                  : std::string("in use by another elevd (its pid is not written down)"));
    }
    // A daemon that stops removes the file before it lets go of it: what was locked may be gone.
    struct stat locked {};
    struct stat named {};
    if (fstat(file.get(), &locked) == 0 && lstat(path.c_str(), &named) == 0 &&
        locked.st_dev == named.st_dev && locked.st_ino == named.st_ino) {
      lock_ = std::move(file);
      break;
    }
  }
  LockRecord earlier = parse_lock_record(read_all(lock_.get()));
  std::erase_if(earlier.made, [this](const std::string& one) { return !may_be_made(path_, one); });
  for (std::string& one : record_.made) earlier.made.push_back(std::move(one));
  record_ = {getpid(), std::move(earlier.made)};
  if (!write_record()) {
    const int code = errno;
    return directory_error(code, path, fmt::format("cannot be written: {}", std::strerror(code)));
  }
  return {};
}

Result<void> Directory::clear_dead_mounts() {
  const Result<std::vector<Mount>> mounts = read_mounts();
  if (!mounts) return tl::unexpected(mounts.error());
  // A mount stands behind the one it is mounted on, so the innermost go first.
  for (auto mount = mounts->rbegin(); mount != mounts->rend(); ++mount) {
    if (mount->type != kMountType || !is_below(path_, mount->mount_point)) continue;
    const int code = unmount(mount->mount_point, true);
    if (code != 0) {
      return directory_error(
          code, mount->mount_point,
          fmt::format("the mount of a dead elevd cannot be removed: {}", std::strerror(code)));
    }
    log(Level::notice, "{}: removed the mount of a dead elevd", mount->mount_point);
  }
  return {};
}

// Disk files that a killed daemon left: those of its record, if they are still as it made them.
Result<void> Directory::clear_left_overs() {
  const Result<std::vector<Mount>> mounts = read_mounts();
  if (!mounts) return tl::unexpected(mounts.error());
  const std::string device_directory = path_ + "/dev";
  const std::vector<std::string> made = record_.made;
  for (const std::string& path : made) {
    if (!is_below(device_directory, path)) continue;
    if (remove_if_ours(path, *mounts)) {
      log(Level::notice, "{}: removed the file of a dead elevd", path);
    }
    forget_made(path);
  }
  return {};
}

// Makes a directory of DIR, or accepts what is there.
Result<void> Directory::prepare(const std::string& path, bool must_be_empty) {
  const Result<std::vector<Mount>> mounts = read_mounts();
  if (!mounts) return tl::unexpected(mounts.error());
  if (const Mount* mount = find_mount_at(*mounts, path); mount != nullptr) {
    return directory_error(EBUSY, path,
                           fmt::format("a file system of type {} is mounted there, expected a "
                                       "directory of elevd's own",
                                       mount->type));
  }
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    note_made(path);
    if (mkdir(path.c_str(), kDirectoryMode) == 0) return {};
    const int code = errno;
    forget_made(path);
    return directory_error(code, path, fmt::format("cannot be made: {}", std::strerror(code)));
  }
  if (!S_ISDIR(status.st_mode)) {
    return directory_error(ENOTDIR, path, "is not a directory, expected one of elevd's own");
  }
  std::error_code error;
  if (must_be_empty && !std::filesystem::is_empty(path, error)) {
    return directory_error(error ? error.value() : ENOTEMPTY, path,
                           "is not empty and not elevd's, expected an empty directory or none");
  }
  return {};
}

Result<std::string> Directory::make_disk_file(std::string_view name) {
  std::string path = disk_path(name);
  const Result<std::vector<Mount>> mounts = read_mounts();
  if (!mounts) return tl::unexpected(mounts.error());
  if (const Mount* mount = find_mount_at(*mounts, path); mount != nullptr) {
    return directory_error(
        EBUSY, path, fmt::format("a file system of type {} is mounted there already", mount->type));
  }
  if (is_empty_file(path, true)) return path;
  note_made(path);
  const Descriptor file{
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode)};
  if (file) return path;
  const int code = errno;
  forget_made(path);
  if (code == EEXIST) {
    return directory_error(code, path,
                           "is not elevd's and not an empty file, expected an empty file or none");
  }
  return directory_error(code, path, fmt::format("cannot be made: {}", std::strerror(code)));
}

void Directory::remove_disk_file(std::string_view name) {
  const std::string path = disk_path(name);
  if (std::find(record_.made.begin(), record_.made.end(), path) == record_.made.end()) return;
  const Result<std::vector<Mount>> mounts = read_mounts();
  if (mounts && remove_if_ours(path, *mounts)) forget_made(path);
}

void Directory::remove_all_made() {
  // Before the lock is ours, only freshly made and still empty directories can be in the record.
  if (path_.empty()) return;
  const Result<std::vector<Mount>> mounts = read_mounts();
  if (!mounts) {
    // No descriptor is free, say: what was made is left to whoever comes next, by the record.
    if (lock_ && record_.made.empty()) unlink(lock_path(path_).c_str());
    return;
  }
  const std::vector<std::string> made = record_.made;
  std::vector<std::string> outer;
  std::vector<std::string> mounted;
  for (auto path = made.rbegin(); path != made.rend(); ++path) {
    if (!is_below(path_, *path)) {
      outer.push_back(*path);  // DIR itself and what is above it: after the lock file
    } else if (!remove_if_ours(*path, *mounts)) {
      if (find_mount_at(*mounts, *path) != nullptr) mounted.push_back(*path);
      log(Level::info, "{}: is left, it is in use or no longer as elevd made it", *path);
    }
  }
  if (!mounted.empty()) {
    // A mount is in the way; whoever comes next finds in the record what lies under it.
    record_.made.assign(made.begin(), made.end());
    write_record();
  } else {
    // Removed while still locked, so that nobody can lock a file that is about to go.
    if (lock_) unlink(lock_path(path_).c_str());
    for (const std::string& path : outer) remove_if_ours(path, *mounts);
  }
  record_ = {};
  lock_.reset();
  path_.clear();
}

void Directory::note_made(const std::string& path) {
  record_.made.push_back(path);
  write_record();
}

void Directory::forget_made(const std::string& path) {
  std::erase(record_.made, path);
  write_record();
}

// Shortening comes last: a reader that meets the change sees lines that were true before or are
// now.
bool Directory::write_record() {
  const std::string text = format_lock_record(record_);
  const auto length = static_cast<ssize_t>(text.size());
  return pwrite(lock_.get(), text.data(), text.size(), 0) == length &&
         ftruncate(lock_.get(), length) == 0;
}

// Removes an empty directory, or an empty file of our making. Whether it is gone.
bool Directory::remove_if_ours(const std::string& path, const std::vector<Mount>& mounts) {
  if (find_mount_at(mounts, path) != nullptr) return false;
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return errno == ENOENT;
  if (S_ISDIR(status.st_mode)) return rmdir(path.c_str()) == 0;
  return is_empty_file(path, false) && unlink(path.c_str()) == 0;
}

}  // namespace elevd::daemon
