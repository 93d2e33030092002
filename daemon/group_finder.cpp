// SPDX-License-Identifier: Apache-2.0
#include "group_finder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

namespace elevd::daemon {

/// Lines are "number:controllers:path".
std::string_view group_path(std::string_view lines) {
  std::string_view found = "/";
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    const std::size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (controllers == "blkio" || controllers.starts_with("blkio,") ||
        controllers.ends_with(",blkio") || controllers.find(",blkio,") != std::string_view::npos) {
      return path;
    }
    if (line.starts_with("0::")) found = path;
  }
  return found;
}

std::optional<std::string> read_group_lines(std::uint32_t id) {
  const Descriptor file(open(fmt::format("/proc/{}/cgroup", id).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string lines;
  std::array<char, 4096> part{};
  ssize_t count = 0;
  while ((count = read(file.get(), part.data(), part.size())) > 0) {
    lines.append(part.data(), static_cast<std::size_t>(count));
  }
  if (count < 0) return std::nullopt;
  return lines;
}

bool GroupQuestions::ask(std::uint32_t id, std::size_t place) {
  const std::uint32_t asked = asked_.load(std::memory_order_relaxed);
  if (asked - answered_.load(std::memory_order_acquire) == kOpen) return false;
  open_[asked % kOpen] = {id, static_cast<std::uint32_t>(place)};
  asked_.store(asked + 1, std::memory_order_release);
  return true;
}

void GroupQuestions::answer_all(
    const std::function<std::optional<sched::GroupId>(std::uint32_t id)>& find) {
  const std::uint32_t asked = asked_.load(std::memory_order_acquire);
  for (std::uint32_t n = answered_.load(std::memory_order_relaxed); n != asked; ++n) {
    const Question question = open_[n % kOpen];
    if (const auto group = find(question.id)) {
      answers_[question.place].store(std::uint64_t{question.id} << 32U | *group,
                                     std::memory_order_relaxed);
    }
    answered_.store(n + 1, std::memory_order_release);
  }
}

GroupFinder::GroupFinder(sched::Groups& groups, Read read)
    : groups_(groups), read_(read), asked_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void GroupFinder::add(GroupQuestions& questions) {
  const std::lock_guard guard(mutex_);
  questions_.push_back(&questions);
}

void GroupFinder::remove(GroupQuestions& questions) {
  const std::lock_guard guard(mutex_);
  questions_.erase(std::remove(questions_.begin(), questions_.end(), &questions), questions_.end());
}

void GroupFinder::notify() {
  if (notified_.exchange(true)) return;
  // Fails only if there is no descriptor: then all are in the root.
  [[maybe_unused]] const int failed = eventfd_write(asked_event_.get(), 1);
}

void GroupFinder::find() {
  eventfd_t times = 0;
  [[maybe_unused]] const int failed = eventfd_read(asked_event_.get(), &times);
  // Before the questions are looked at: one that comes later notifies again.
  notified_.store(false);
  const std::lock_guard guard(mutex_);
  for (GroupQuestions* questions : questions_) {
    questions->answer_all([this](std::uint32_t id) -> std::optional<sched::GroupId> {
      const auto lines = read_(id);
      if (!lines) return std::nullopt;
      return groups_.id(group_path(*lines));
    });
  }
}

}  // namespace elevd::daemon
