// SPDX-License-Identifier: Apache-2.0
// File rules: what read(2) and write(2) of an attribute mean, whoever carries the calls.
//
// Owns:       a Snapshot owns the text that one open file reads.
// Thread:     a Snapshot is used by one thread at a time.
// Time:       none.
// Invariants: (1) one write is one complete store, its offset means nothing;
//             (2) a reader sees one text from its first read to its end, unless it goes back to 0.
// See also:   docs/spec/sysfs.md section 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace elevd::sysfs {

/// Size every file reports, and most bytes that one write passes on.
inline constexpr std::size_t kFileBytes = 4096;

/// What a write of some bytes stores and counts.
struct StoreInput {
  std::string_view text;  ///< ends before the first NUL
  std::size_t count = 0;  ///< what write(2) returns on success; 0: nothing is stored at all
};

[[nodiscard]] constexpr StoreInput store_input(std::string_view written) {
  const std::string_view taken = written.substr(0, kFileBytes);
  return {taken.substr(0, taken.find('\0')), taken.size()};
}

/// What one open file reads.
class Snapshot {
 public:
  /// The bytes of [offset, offset + size). `produce` makes the text, as an expected<string, int>:
  /// asked at offset 0 and at the first read. An error of it leaves no text behind.
  template <class Produce>
  [[nodiscard]] tl::expected<std::string_view, int> read(std::uint64_t offset, std::size_t size,
                                                         Produce&& produce) {
    if (offset == 0 || !text_) {
      text_.reset();
      tl::expected<std::string, int> made = produce();
      if (!made) return tl::unexpected(made.error());
      text_ = std::move(*made);
    }
    if (offset >= text_->size()) return std::string_view{};
    return std::string_view{*text_}.substr(static_cast<std::size_t>(offset), size);
  }

 private:
  std::optional<std::string> text_;
};

}  // namespace elevd::sysfs
