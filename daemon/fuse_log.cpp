// SPDX-License-Identifier: Apache-2.0
#include "fuse_log.hpp"

#include <fuse_log.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string_view>

#include "log.hpp"

namespace elevd::daemon {
namespace {

thread_local std::string* kept = nullptr;

/// A message without the library's prefix and its newline.
std::string_view trimmed(std::string_view message) {
  constexpr std::string_view prefix = "fuse: ";
  if (message.starts_with(prefix)) message.remove_prefix(prefix.size());
  while (message.ends_with('\n')) message.remove_suffix(1);
  return message;
}

[[gnu::format(printf, 2, 0)]] void take_message(fuse_log_level level, const char* format,
                                                va_list arguments) {
  char buffer[512];
  std::vsnprintf(buffer, sizeof(buffer), format, arguments);
  const std::string_view message = trimmed(buffer);
  if (kept != nullptr) {
    if (!kept->empty()) *kept += "; ";
    *kept += message;
    return;
  }
  log(level <= FUSE_LOG_ERR ? Level::error : Level::debug, "libfuse: {}", message);
}

}  // namespace

FuseMessages::FuseMessages() {
  static std::once_flag once;
  std::call_once(once, [] { fuse_set_log_func(&take_message); });
  kept = &text_;
}

FuseMessages::~FuseMessages() { kept = nullptr; }

}  // namespace elevd::daemon
