// SPDX-License-Identifier: Apache-2.0
#include "fake_tree.hpp"

#include <stdlib.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

namespace elevd::daemon::testing {

namespace fs = std::filesystem;

FakeTree::FakeTree() {
  std::string pattern = fs::temp_directory_path() / "elevctl-test-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), pattern);
  }
  root_ = pattern;
  fs::create_directories(block());
}

FakeTree::~FakeTree() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

void FakeTree::write(std::string_view path, std::string_view text) const {
  const fs::path file = fs::path(block()) / path;
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

void FakeTree::link(std::string_view path, std::string_view target) const {
  const fs::path file = fs::path(block()) / path;
  fs::create_directories(file.parent_path());
  fs::remove(file);
  fs::create_symlink(target, file);
}

std::string FakeTree::read(std::string_view path) const {
  std::ifstream file(fs::path(block()) / path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void FakeTree::add_disk(std::string_view name) const {
  const std::string disk(name);
  write(disk + "/queue/scheduler", "none [mq-deadline] kyber bfq \n");
  write(disk + "/queue/nr_requests", "256\n");
  write(disk + "/queue/async_depth", "192\n");
  write(disk + "/queue/nomerges", "0\n");
  write(disk + "/queue/iosched/fifo_batch", "16\n");
  write(disk + "/queue/iosched/front_merges", "1\n");
  write(disk + "/size", "524288\n");
  write(disk + "/ro", "0\n");
  write(disk + "/stat", "       1        2\n");
  write(disk + "/mq/0/nr_tags", "128\n");
}

}  // namespace elevd::daemon::testing
