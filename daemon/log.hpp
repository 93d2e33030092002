// SPDX-License-Identifier: Apache-2.0
// Log: lines for the person who runs the daemon, on stderr or to syslog.
//
// Owns:       one process-wide setting (target, level) and the table of rate-limited messages.
// Thread:     every function may be called from any thread. One message is one write(2), so lines
// of
//             several threads do not mix. The rate limiter takes a lock of its own; the rest none.
// Time:       log_once_per reads the monotonic clock; RateLimiter takes it as an argument.
// Invariants: (1) a message is one line: control characters in it are shown as '?', so that a path
//                 cannot forge a line;
//             (2) under the journal (its stream is our stderr) each line carries the "<N>" prefix
//             of
//                 sd-daemon(3); elsewhere it begins with "elevd: ";
//             (3) logging changes neither errno nor the program's course: a failed write is
//             dropped.
// Not for:    the data path. A worker logs rare things only, by log_once_per.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace elevd::daemon {

// The values are the priorities of syslog(3).
enum class Level { error = 3, warning = 4, notice = 5, info = 6, debug = 7 };

// Messages less important than `level` are dropped. Default: info.
void set_log_level(Level level);
bool log_enabled(Level level);

// Sends what follows to syslog(3), facility daemon, with our pid. For a daemon that has left its
// terminal; call it after the fork. There is no way back.
void log_to_syslog();

// Writes one message as it is. `text` without a newline at its end.
void log_text(Level level, std::string_view text);

template <class... Args>
void log(Level level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_text(level, fmt::format(format, std::forward<Args>(args)...));
}

// The line that goes to stderr for a message, newline included. Pure; for log_text and its tests.
std::string format_log_line(Level level, std::string_view text, bool journal);

// Whether `stream`, the value of $JOURNAL_STREAM ("DEVICE:INODE", decimal; null when unset), names
// this device and inode. Anything malformed is a no. Source: systemd.exec(5), JOURNAL_STREAM.
bool is_journal_stream(const char* stream, std::uint64_t device, std::uint64_t inode);

// Decides which of many equal messages are written. Not safe for concurrent use by itself.
class RateLimiter {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // Null: keep quiet, the last message of this key is younger than `interval`. Else: write it; the
  // value is the number of messages of this key kept back since the last one written.
  std::optional<std::uint64_t> admit(std::string_view key, std::chrono::nanoseconds interval,
                                     Instant now);

 private:
  struct Entry {
    Instant last;
    std::uint64_t suppressed = 0;
  };
  std::map<std::string, Entry, std::less<>> entries_;
};

// The process-wide limiter. Same contract as RateLimiter::admit, now = the monotonic clock; safe
// for concurrent use.
std::optional<std::uint64_t> admit_message(std::string_view key, std::chrono::nanoseconds interval);

// As log(), but at most once per `interval` for each `key`; the next line then says how many were
// kept back. Keys are few and fixed (a table entry each): name the kind of event and the disk.
template <class... Args>
void log_once_per(std::string_view key, std::chrono::nanoseconds interval, Level level,
                  fmt::format_string<Args...> format, Args&&... args) {
  if (!log_enabled(level)) return;
  const std::optional<std::uint64_t> suppressed = admit_message(key, interval);
  if (!suppressed) return;
  std::string text = fmt::format(format, std::forward<Args>(args)...);
  if (*suppressed > 0) text += fmt::format(" ({} more of these not shown)", *suppressed);
  log_text(level, text);
}

}  // namespace elevd::daemon
