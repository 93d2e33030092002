// SPDX-License-Identifier: Apache-2.0
// The backings without a device: ram:SIZE and null:SIZE. Both are served inline.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "backing_open.hpp"

#if defined(ELEVD_TSAN)
// Of ThreadSanitizer's library; no header declares it.
extern "C" void AnnotateBenignRaceSized(const char* file, int line, const volatile void* memory,
                                        std::size_t bytes, const char* why);
#endif

namespace elevd::daemon {
namespace {

// Owns a mapping.
class Mapping {
 public:
  Mapping(void* start, std::size_t length) : start_(start), length_(length) {}
  Mapping(Mapping&& other) noexcept
      : start_(std::exchange(other.start_, MAP_FAILED)), length_(other.length_) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (*this) munmap(start_, length_);
  }
  explicit operator bool() const { return start_ != MAP_FAILED; }
  std::byte* at(std::uint64_t offset) const { return static_cast<std::byte*>(start_) + offset; }
  std::size_t length() const { return length_; }

 private:
  void* start_;
  std::size_t length_;
};

constexpr std::uint32_t kDiscardGranularity = 4096;  // a page of the memfd
constexpr std::size_t kZeroAreaBytes = std::size_t{1} << 20;

// A sealed memfd, mapped. A page takes memory from its first read or write on until it is discarded
// as a whole. Huge pages are not asked for: they would make small discards free nothing and
// SEEK_DATA report 2 MiB for a write of 4 KiB.
class RamBacking final : public Backing {
 public:
  RamBacking(Descriptor file, Mapping memory, Geometry geometry)
      : Backing(BackingKind::inline_, std::move(file), std::move(geometry)),
        memory_(std::move(memory)) {
#if defined(ELEVD_TSAN)
    // The bytes of a disk are ordered by who reads and writes the disk, through the kernel, which
    // ThreadSanitizer does not see: it takes the bytes of an answer for read after the writev()
    // that sends them, when the caller may long have written them anew through another worker.
    AnnotateBenignRaceSized(__FILE__, __LINE__, memory_.at(0), memory_.length(), "bytes of a disk");
#endif
  }

  ssize_t read(std::uint64_t offset, std::span<std::byte> to) override {
    require_inside(offset, to.size());
    if (!to.empty()) std::memcpy(to.data(), memory_.at(offset), to.size());
    return static_cast<ssize_t>(to.size());
  }

  ssize_t write(std::uint64_t offset, std::span<const std::byte> from) override {
    require_inside(offset, from.size());
    if (geometry().read_only) return -EROFS;
    if (!from.empty()) std::memcpy(memory_.at(offset), from.data(), from.size());
    return static_cast<ssize_t>(from.size());
  }

  const std::byte* direct_read_view(std::uint64_t offset, std::size_t length) const override {
    require_inside(offset, length);
    return memory_.at(offset);
  }

  int discard(std::uint64_t offset, std::uint64_t length) override {
    require_inside(offset, length);
    if (geometry().read_only) return -EROFS;
    if (length == 0) return 0;
    for (;;) {
      if (fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(length)) == 0) {
        return 0;
      }
      if (errno != EINTR) return -errno;
    }
  }

  // tmpfs has no zero range; a punched one reads as zeroes.
  int write_zeroes(std::uint64_t offset, std::uint64_t length) override {
    return discard(offset, length);
  }

  int flush() override { return 0; }

  off_t seek(std::uint64_t offset, int whence) override {
    if (whence != SEEK_DATA && whence != SEEK_HOLE) return -EINVAL;
    if (offset >= geometry().bytes) return -ENXIO;
    const off_t found = lseek(fd(), static_cast<off_t>(offset), whence);
    return found < 0 ? -errno : found;
  }

 private:
  const Mapping memory_;
};

// Stores nothing; everything succeeds and reads as zeroes.
class NullBacking final : public Backing {
 public:
  NullBacking(Mapping zeroes, Geometry geometry)
      : Backing(BackingKind::inline_, Descriptor{}, std::move(geometry)),
        zeroes_(std::move(zeroes)) {}

  ssize_t read(std::uint64_t offset, std::span<std::byte> to) override {
    require_inside(offset, to.size());
    if (!to.empty()) std::memset(to.data(), 0, to.size());
    return static_cast<ssize_t>(to.size());
  }

  ssize_t write(std::uint64_t offset, std::span<const std::byte> from) override {
    require_inside(offset, from.size());
    return geometry().read_only ? -EROFS : static_cast<ssize_t>(from.size());
  }

  const std::byte* direct_read_view(std::uint64_t offset, std::size_t length) const override {
    require_inside(offset, length);
    return length <= zeroes_.length() ? zeroes_.at(0) : nullptr;
  }
  bool reads_zeroes() const override { return true; }

  int discard(std::uint64_t offset, std::uint64_t length) override {
    require_inside(offset, length);
    return geometry().read_only ? -EROFS : 0;
  }

  int write_zeroes(std::uint64_t offset, std::uint64_t length) override {
    return discard(offset, length);
  }

  int flush() override { return 0; }

  off_t seek(std::uint64_t offset, int whence) override {
    if (whence != SEEK_DATA && whence != SEEK_HOLE) return -EINVAL;
    if (offset >= geometry().bytes || whence == SEEK_DATA) return -ENXIO;
    return static_cast<off_t>(offset);
  }

 private:
  const Mapping zeroes_;
};

Result<Geometry> memory_geometry(const BackingOptions& options, const char* kind) {
  const std::string name = fmt::format("{}:{}", kind, options.bytes);
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  if (options.bytes > kLargest) {
    return backing_error(EINVAL, name,
                         fmt::format("the size is too large, expected at most {}", kLargest));
  }
  Geometry geometry;
  geometry.bytes = options.bytes;
  geometry.read_only = options.read_only;
  geometry.discard = geometry.write_zeroes = true;
  geometry.discard_granularity = kDiscardGranularity;
  geometry.discard_max_bytes = geometry.write_zeroes_max_bytes = kUnlimitedBytes;
  if (auto settled = settle_blocks(options, name, kSmallestBlock, geometry); !settled) {
    return tl::unexpected(settled.error());
  }
  geometry.description = name;
  return geometry;
}

}  // namespace

Result<std::unique_ptr<Backing>> open_ram_backing(const BackingOptions& options) {
  Result<Geometry> geometry = memory_geometry(options, "ram");
  if (!geometry) return tl::unexpected(geometry.error());
  const std::string name = geometry->description;
  const auto failed = [&name](const char* doing) {
    const int code = errno;
    return backing_error(code, name, fmt::format("{}: {}", doing, std::strerror(code)));
  };
  Descriptor file{memfd_create("elevd-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!file) return failed("no memory file could be made");
  if (ftruncate(file.get(), static_cast<off_t>(geometry->bytes)) != 0) {
    return failed("the memory file could not be given its size");
  }
  // A file that shrank would turn a copy into SIGBUS.
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return failed("the memory file could not be sealed");
  }
  Mapping memory{mmap(nullptr, geometry->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0),
                 geometry->bytes};
  if (!memory) return failed("the memory file could not be mapped");
  madvise(memory.at(0), memory.length(), MADV_DONTDUMP);
  geometry->discard_fallocate_mode = geometry->write_zeroes_fallocate_mode =
      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  return std::make_unique<RamBacking>(std::move(file), std::move(memory), std::move(*geometry));
}

Result<std::unique_ptr<Backing>> open_null_backing(const BackingOptions& options) {
  Result<Geometry> geometry = memory_geometry(options, "null");
  if (!geometry) return tl::unexpected(geometry.error());
  // Untouched private memory: every page of it is the kernel's one zero page.
  Mapping zeroes{mmap(nullptr, kZeroAreaBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                 kZeroAreaBytes};
  if (!zeroes) {
    const int code = errno;
    return backing_error(code, geometry->description,
                         fmt::format("no zero area could be mapped: {}", std::strerror(code)));
  }
  return std::make_unique<NullBacking>(std::move(zeroes), std::move(*geometry));
}

}  // namespace elevd::daemon
