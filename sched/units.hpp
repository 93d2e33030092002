// SPDX-License-Identifier: Apache-2.0
// Units: a type for every quantity, so that a place is never taken for a length or a time.
//
// Owns:       nothing; plain values.
// Thread:     any.
// Time:       Instant counts nanoseconds of a clock the caller chose; sched never reads one.
// Invariants: only operations that mean something exist (two places have no sum).
// See also:   docs/spec/plug-and-merge.md (1 sector = 512 bytes everywhere).
#pragma once

#include <compare>
#include <cstdint>

namespace elevd::sched {

inline constexpr unsigned kSectorShift = 9;
inline constexpr std::uint64_t kSectorBytes = 512;

/// A number of bytes.
struct Bytes {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.value + b.value}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.value - b.value}; }
  constexpr Bytes& operator+=(Bytes b) {
    value += b.value;
    return *this;
  }
};

/// A number of 512-byte sectors.
struct Sectors {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(Sectors, Sectors) = default;
  friend constexpr Sectors operator+(Sectors a, Sectors b) { return {a.value + b.value}; }
  friend constexpr Sectors operator-(Sectors a, Sectors b) { return {a.value - b.value}; }
  constexpr Sectors& operator+=(Sectors b) {
    value += b.value;
    return *this;
  }
  constexpr Sectors& operator-=(Sectors b) {
    value -= b.value;
    return *this;
  }
  [[nodiscard]] constexpr Bytes bytes() const { return {value << kSectorShift}; }
};

/// A place on a disk, in 512-byte sectors from its start.
struct Sector {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(Sector, Sector) = default;
  friend constexpr Sector operator+(Sector at, Sectors n) { return {at.value + n.value}; }
  friend constexpr Sectors operator-(Sector a, Sector b) { return {a.value - b.value}; }
  constexpr Sector& operator+=(Sectors n) {
    value += n.value;
    return *this;
  }
  /// Byte offset of this place.
  [[nodiscard]] constexpr Bytes offset() const { return {value << kSectorShift}; }
};

/// How far two places are apart, whichever comes first.
[[nodiscard]] constexpr Sectors apart(Sector a, Sector b) { return a < b ? b - a : a - b; }

/// A length of time in nanoseconds, possibly negative.
struct Duration {
  std::int64_t ns = 0;
  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
};

/// A point in time: nanoseconds since the start of whichever clock the caller uses.
struct Instant {
  std::int64_t ns = 0;
  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant at, Duration d) { return {at.ns + d.ns}; }
  friend constexpr Duration operator-(Instant a, Instant b) { return {a.ns - b.ns}; }
};

namespace literals {
constexpr Duration operator""_s(unsigned long long n) {
  return {static_cast<std::int64_t>(n) * 1'000'000'000};
}
constexpr Duration operator""_ms(unsigned long long n) {
  return {static_cast<std::int64_t>(n) * 1'000'000};
}
constexpr Duration operator""_us(unsigned long long n) {
  return {static_cast<std::int64_t>(n) * 1'000};
}
}  // namespace literals

}  // namespace elevd::sched
