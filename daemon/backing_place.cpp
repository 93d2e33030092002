// SPDX-License-Identifier: Apache-2.0
#include "backing_place.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "backing_open.hpp"

namespace elevd::daemon {

Result<std::string> resolve_place(const std::string& path) {
  namespace fs = std::filesystem;
  static constexpr int kMostLinks = 40;  // as the kernel
  if (path.empty()) return backing_error(ENOENT, "backing", "its path is empty, expected a file");
  fs::path place = path;
  for (int links = 0; links < kMostLinks; ++links) {
    if (!place.has_filename() || place.filename() == "." || place.filename() == "..") {
      return backing_error(EISDIR, path, "is a directory, expected a file or a block device");
    }
    std::error_code error;
    const fs::path parent = place.has_parent_path() ? place.parent_path() : fs::path(".");
    const fs::path directory = fs::canonical(parent, error);
    if (error) {
      return backing_error(error.value(), path,
                           fmt::format("{}: {}", parent.string(), error.message()));
    }
    place = directory / place.filename();
    std::array<char, PATH_MAX> target{};
    const ssize_t length = readlink(place.c_str(), target.data(), target.size());
    if (length < 0) return place.string();  // no link, or nothing there: opening it will tell
    const fs::path next = std::string(target.data(), static_cast<std::size_t>(length));
    place = directory / next;  // an absolute `next` replaces the directory
  }
  return backing_error(ELOOP, path, std::strerror(ELOOP));
}

std::string resolve_directory(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path resolved = fs::weakly_canonical(fs::absolute(directory, error), error);
  if (error) resolved = fs::path(directory).lexically_normal();
  if (!resolved.has_filename() && resolved.has_relative_path()) resolved = resolved.parent_path();
  return resolved.string();
}

}  // namespace elevd::daemon
