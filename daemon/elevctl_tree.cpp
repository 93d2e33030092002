// SPDX-License-Identifier: Apache-2.0
#include "daemon/elevctl_tree.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace elevd::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDiskPrefix = "disk/";

tl::unexpected<config::Error> failure(int code) {
  return tl::unexpected(config::Error{code, std::generic_category().message(code)});
}

bool is_component(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

bool is_safe_path(std::string_view path) {
  while (true) {
    const std::size_t slash = path.find('/');
    if (!is_component(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

// A descriptor that is closed at the end of its block.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : number_(::open(path.c_str(), flags)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Names below `directory`; those that are directories go to the second list, symbolic links to
// directories (the kernel's bdi, subsystem) to none.
std::pair<std::vector<std::string>, std::vector<std::string>> entries(const fs::path& directory) {
  std::vector<std::string> files;
  std::vector<std::string> directories;
  std::error_code code;
  for (fs::directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
    std::error_code ignored;
    if (!at->is_directory(ignored)) {
      files.push_back(at->path().filename());
    } else if (!at->is_symlink(ignored)) {
      directories.push_back(at->path().filename());
    }
  }
  return {std::move(files), std::move(directories)};
}

}  // namespace

Tree::Tree(std::string_view directory) : block_(directory) {
  while (block_.ends_with('/')) block_.pop_back();
  block_ += "/sys/block";
}

Tree::Result<std::vector<std::string>> Tree::disks() const {
  std::vector<std::string> names;
  std::error_code code;
  fs::directory_iterator at(block_, code);
  for (const fs::directory_iterator end; !code && at != end; at.increment(code)) {
    names.push_back(at->path().filename());
  }
  if (code) return failure(code.value());
  std::sort(names.begin(), names.end());
  return names;
}

bool Tree::has_disk(std::string_view disk) const {
  std::error_code code;
  return is_component(disk) && fs::is_directory(block_ + "/" + std::string(disk), code);
}

std::vector<std::string> Tree::attributes(std::string_view disk) const {
  const fs::path own = block_ + "/" + std::string(disk);
  std::vector<std::string> result;
  auto [queue_files, groups] = entries(own / "queue");
  result.insert(result.end(), queue_files.begin(), queue_files.end());
  for (const std::string& group : groups) {
    for (const std::string& file : entries(own / "queue" / group).first) {
      result.push_back(fs::path(group) / file);
    }
  }
  for (const std::string& file : entries(own).first) {
    result.push_back(std::string(kDiskPrefix) + file);
  }
  std::sort(result.begin(), result.end());
  return result;
}

Tree::Result<std::string> Tree::path_of(std::string_view disk, std::string_view attribute) const {
  if (!is_component(disk) || !is_safe_path(attribute)) return failure(EINVAL);
  const std::string own = block_ + "/" + std::string(disk) + "/";
  if (attribute.starts_with(kDiskPrefix)) {
    return own + std::string(attribute.substr(kDiskPrefix.size()));
  }
  return own + "queue/" + std::string(attribute);
}

bool Tree::has_attribute(std::string_view disk, std::string_view attribute) const {
  const auto path = path_of(disk, attribute);
  std::error_code code;
  const fs::file_status status = path ? fs::status(*path, code) : fs::file_status();
  return fs::exists(status) && !fs::is_directory(status);
}

bool Tree::is_writable(std::string_view disk, std::string_view attribute) const {
  constexpr fs::perms kWrite =
      fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  if (!has_attribute(disk, attribute)) return false;
  std::error_code code;
  const fs::file_status status = fs::status(*path_of(disk, attribute), code);
  return !code && (status.permissions() & kWrite) != fs::perms::none;
}

Tree::Result<std::string> Tree::read(std::string_view disk, std::string_view attribute) const {
  const auto path = path_of(disk, attribute);
  if (!path) return tl::unexpected(path.error());
  const Descriptor file(*path, O_RDONLY | O_CLOEXEC);
  if (file.number() < 0) return failure(errno);
  std::string text;
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t count = ::read(file.number(), buffer.data(), buffer.size());
    if (count == 0) return text;
    if (count < 0) return failure(errno);
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

Tree::Result<void> Tree::store(std::string_view disk, std::string_view attribute,
                               std::string_view value) const {
  const auto path = path_of(disk, attribute);
  if (!path) return tl::unexpected(path.error());
  const Descriptor file(*path, O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (file.number() < 0) return failure(errno);
  // Never empty: a write of 0 bytes would reach nobody and look like success.
  const std::string text = std::string(value) + "\n";
  const ssize_t count = ::write(file.number(), text.data(), text.size());
  if (count < 0) return failure(errno);
  if (static_cast<std::size_t>(count) != text.size()) return failure(E2BIG);
  return {};
}

}  // namespace elevd::daemon
