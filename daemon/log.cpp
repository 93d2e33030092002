// SPDX-License-Identifier: Apache-2.0
#include "log.hpp"

#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <functional>

namespace elevd::daemon {
namespace {

std::atomic<Level> g_level{Level::info};
std::atomic<bool> g_syslog{false};

bool stderr_is_journal() {
  static const bool answer = [] {
    struct stat status {};
    if (fstat(STDERR_FILENO, &status) != 0) return false;
    return is_journal_stream(std::getenv("JOURNAL_STREAM"), status.st_dev, status.st_ino);
  }();
  return answer;
}

bool parse_decimal(std::string_view text, std::uint64_t& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end;
}

void append_visible(std::string& line, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    line += (byte < 0x20 || byte == 0x7f) ? '?' : c;
  }
}

}  // namespace

void set_log_level(Level level) { g_level.store(level, std::memory_order_relaxed); }

bool log_enabled(Level level) {
  return static_cast<int>(level) <= static_cast<int>(g_level.load(std::memory_order_relaxed));
}

void log_to_syslog() {
  openlog("elevd", LOG_PID, LOG_DAEMON);
  g_syslog.store(true, std::memory_order_release);
}

void log_text(Level level, std::string_view text) {
  if (!log_enabled(level)) return;
  const int saved = errno;
  if (g_syslog.load(std::memory_order_acquire)) {
    std::string visible;
    append_visible(visible, text);
    syslog(static_cast<int>(level), "%s", visible.c_str());
  } else {
    const std::string line = format_log_line(level, text, stderr_is_journal());
    // A log that cannot be written has nobody to tell.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  }
  errno = saved;
}

std::string format_log_line(Level level, std::string_view text, bool journal) {
  std::string line;
  if (journal) {
    line = fmt::format("<{}>", static_cast<int>(level));
  } else {
    line = "elevd: ";
    if (level == Level::error) line += "error: ";
    if (level == Level::warning) line += "warning: ";
  }
  append_visible(line, text);
  line += '\n';
  return line;
}

bool is_journal_stream(const char* stream, std::uint64_t device, std::uint64_t inode) {
  if (stream == nullptr) return false;
  const std::string_view text = stream;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  std::uint64_t stream_device = 0;
  std::uint64_t stream_inode = 0;
  return parse_decimal(text.substr(0, colon), stream_device) &&
         parse_decimal(text.substr(colon + 1), stream_inode) && stream_device == device &&
         stream_inode == inode;
}

std::optional<std::uint64_t> RateLimiter::admit(std::string_view key,
                                                std::chrono::nanoseconds interval, Instant now) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    entries_.emplace(std::string(key), Entry{now, 0});
    return 0;
  }
  Entry& entry = found->second;
  if (now - entry.last < interval) {
    ++entry.suppressed;
    return std::nullopt;
  }
  entry.last = now;
  return std::exchange(entry.suppressed, 0);
}

std::optional<std::uint64_t> admit_message(std::string_view key,
                                           std::chrono::nanoseconds interval) {
  static std::mutex lock;
  static RateLimiter limiter;
  const std::lock_guard guard(lock);
  return limiter.admit(key, interval, std::chrono::steady_clock::now());
}

}  // namespace elevd::daemon
