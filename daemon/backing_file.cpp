// SPDX-License-Identifier: Apache-2.0
// The backings with a path: regular files, files on tmpfs, block devices.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "backing_open.hpp"
#include "backing_place.hpp"
#include "device_queue.hpp"
#include "log.hpp"
#include "mounts.hpp"

namespace elevd::daemon {
namespace {

constexpr unsigned long kTmpfsMagic = 0x01021994;   // linux/magic.h, TMPFS_MAGIC
constexpr unsigned kStatxDirectAlignment = 0x2000;  // linux/stat.h, STATX_DIOALIGN, from 6.1 on

constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
constexpr int kZero = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;

int fallocate_range(int fd, int mode, std::uint64_t offset, std::uint64_t length) {
  while (fallocate(fd, mode, static_cast<off_t>(offset), static_cast<off_t>(length)) != 0) {
    if (errno != EINTR) return -errno;
  }
  return 0;
}

class FileBacking final : public Backing {
 public:
  FileBacking(BackingKind kind, Descriptor file, Geometry geometry)
      : Backing(kind, std::move(file), std::move(geometry)) {}

  ssize_t read(std::uint64_t offset, std::span<std::byte> to) override {
    require_inside(offset, to.size());
    return transfer(to.data(), to.size(), offset, preadv2);
  }

  ssize_t write(std::uint64_t offset, std::span<const std::byte> from) override {
    require_inside(offset, from.size());
    if (geometry().read_only) return -EROFS;
    // The vector of pwritev2 has no const; nothing writes through it.
    return transfer(const_cast<std::byte*>(from.data()), from.size(), offset, pwritev2);
  }

  int discard(std::uint64_t offset, std::uint64_t length) override {
    require_inside(offset, length);
    if (geometry().read_only) return -EROFS;
    if (length == 0) return 0;
    return fallocate_range(fd(), kPunch, offset, length);
  }

  int write_zeroes(std::uint64_t offset, std::uint64_t length) override {
    require_inside(offset, length);
    if (geometry().read_only) return -EROFS;
    if (length == 0) return 0;
    const int result =
        fallocate_range(fd(), geometry().write_zeroes_fallocate_mode, offset, length);
    if (result != -EOPNOTSUPP || geometry().is_block_device) return result;
    return fallocate_range(fd(), kPunch, offset, length);  // a hole reads as zeroes, too
  }

  int flush() override {
    while (fdatasync(fd()) != 0) {
      if (errno != EINTR) return -errno;
    }
    return 0;
  }

  off_t seek(std::uint64_t offset, int whence) override {
    if (whence != SEEK_DATA && whence != SEEK_HOLE) return -EINVAL;
    const auto end = static_cast<off_t>(geometry().bytes);
    const auto place = static_cast<off_t>(offset);
    if (offset >= geometry().bytes) return -ENXIO;
    const off_t found = lseek(fd(), place, whence);
    if (found < 0 && errno == ENXIO) return whence == SEEK_HOLE ? end : -ENXIO;
    // Block devices and some file systems do not know: all of it counts as data.
    if (found < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
      return whence == SEEK_HOLE ? end : place;
    }
    if (found < 0) return -errno;
    if (found < end) return found;
    return whence == SEEK_HOLE ? end : -ENXIO;
  }

 private:
  using VectorCall = ssize_t (*)(int, const iovec*, int, off_t, int);

  ssize_t transfer(std::byte* memory, std::size_t length, std::uint64_t offset,
                   VectorCall call) const {
    std::size_t done = 0;
    while (done < length) {
      const iovec part{memory + done, length - done};
      const ssize_t moved = call(fd(), &part, 1, static_cast<off_t>(offset + done), 0);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0) return -errno;
      if (moved == 0) break;
      done += static_cast<std::size_t>(moved);
    }
    return static_cast<ssize_t>(done);
  }
};

// What is known of a path backing while it is opened.
struct Opening {
  const BackingOptions& options;
  struct stat status {};
  Descriptor file;

  tl::unexpected<Error> failed(int code, const std::string& what) const {
    return backing_error(code, options.path, what);
  }
};

void pause_shortly() {
  constexpr timespec kPause{0, 10'000'000};
  nanosleep(&kPause, nullptr);
}

// Calls `attempt` until it returns something else than EBUSY, at most for `wait`.
template <class Attempt>
int retry_while_busy(std::chrono::milliseconds wait, Attempt attempt) {
  // A killed daemon's ring holds its files for some 75 ms (`docs/spec/fuse.md` section 12).
  const auto deadline = std::chrono::steady_clock::now() + wait;
  for (;;) {
    const int code = attempt();
    if (code != EBUSY || std::chrono::steady_clock::now() >= deadline) return code;
    pause_shortly();
  }
}

Result<void> check_mounted(const Opening& opening) {
  const auto mounts = read_mounts();
  if (!mounts) return {};  // then the exclusive open has to tell
  for (const Mount& mount : *mounts) {
    if (mount.device_major == major(opening.status.st_rdev) &&
        mount.device_minor == minor(opening.status.st_rdev)) {
      return opening.failed(EBUSY, fmt::format("is mounted at {}, expected a device that nobody "
                                               "uses",
                                               mount.mount_point));
    }
  }
  return {};
}

// Refuses what is no backing before it is opened: opening a device can have effects.
Result<void> check_type(Opening& opening, const std::string& place) {
  if (stat(place.c_str(), &opening.status) != 0) {
    const int code = errno;
    return opening.failed(
        code, fmt::format("{}, expected a file or a block device", std::strerror(code)));
  }
  const mode_t mode = opening.status.st_mode;
  if (S_ISREG(mode)) return {};
  if (S_ISBLK(mode)) return check_mounted(opening);
  const char* kind = S_ISDIR(mode)    ? "directory"
                     : S_ISCHR(mode)  ? "character device"
                     : S_ISFIFO(mode) ? "pipe"
                                      : "socket";
  return opening.failed(S_ISDIR(mode) ? EISDIR : EINVAL,
                        fmt::format("is a {}, expected a file or a block device", kind));
}

Result<void> open_file(Opening& opening, const std::string& place) {
  const bool read_only = opening.options.read_only;
  const bool block_device = S_ISBLK(opening.status.st_mode);
  const int flags =
      (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY | (block_device ? O_EXCL : 0);
  const int code = retry_while_busy(opening.options.lock_wait, [&] {
    opening.file.reset(open(place.c_str(), flags));
    return opening.file ? 0 : errno;
  });
  if (code == EBUSY) {
    return opening.failed(code,
                          "in use by another process or mounted, expected a device that "
                          "nobody uses");
  }
  if (code != 0) {
    return opening.failed(
        code, fmt::format("cannot be opened for {}: {}",
                          read_only ? "reading" : "reading and writing", std::strerror(code)));
  }
  struct stat opened {};
  if (fstat(opening.file.get(), &opened) != 0 || opened.st_dev != opening.status.st_dev ||
      opened.st_ino != opening.status.st_ino) {
    return opening.failed(ESTALE, "was replaced while it was opened");
  }
  opening.status = opened;
  return {};
}

// A lock of the open file description: it follows the descriptor, not the process.
Result<void> lock_file(const Opening& opening) {
  struct flock lock {};
  lock.l_type = opening.options.read_only ? F_RDLCK : F_WRLCK;
  lock.l_whence = SEEK_SET;
  const int code = retry_while_busy(opening.options.lock_wait, [&] {
    if (fcntl(opening.file.get(), F_OFD_SETLK, &lock) == 0) return 0;
    return errno == EAGAIN || errno == EACCES ? EBUSY : errno;
  });
  if (code == 0) return {};
  if (code == EBUSY) {
    return opening.failed(code, "in use by another process, which holds a lock on it");
  }
  return opening.failed(code, fmt::format("cannot be locked: {}", std::strerror(code)));
}

struct DirectAlignment {
  unsigned offset = 0;  // 0: no direct I/O
  unsigned memory = 0;
};

// The smallest block that an aligned read takes, for kernels and file systems that do not say.
DirectAlignment probe_alignment(int fd) {
  void* memory = std::aligned_alloc(kLargestBlock, kLargestBlock);
  if (memory == nullptr) return {};
  DirectAlignment found;
  for (unsigned length = kSmallestBlock; length <= kLargestBlock && found.offset == 0;
       length *= 2) {
    if (pread(fd, memory, length, 0) >= 0) found = {length, length};
  }
  std::free(memory);
  return found;
}

// Sets O_DIRECT where the file takes it, and says how its I/O must be aligned.
DirectAlignment make_direct(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) return {};
  struct statx status {};
  DirectAlignment found;
  if (statx(fd, "", AT_EMPTY_PATH, kStatxDirectAlignment, &status) == 0 &&
      (status.stx_mask & kStatxDirectAlignment) != 0) {
    // Read by place: the structure of an older header lacks the two names.
    const auto* raw = reinterpret_cast<const std::byte*>(&status);
    std::memcpy(&found.memory, raw + 152, sizeof found.memory);
    std::memcpy(&found.offset, raw + 156, sizeof found.offset);
  } else {
    found = probe_alignment(fd);
  }
  if (found.offset == 0 || found.offset > kLargestBlock || !std::has_single_bit(found.offset)) {
    fcntl(fd, F_SETFL, flags);
    return {};
  }
  found.memory = std::max(found.memory, 1U);
  return found;
}

// Without RWF_NOWAIT, io_uring hands every I/O to a helper thread.
bool takes_nowait(int fd) {
  void* memory = std::aligned_alloc(kLargestBlock, kLargestBlock);
  if (memory == nullptr) return true;
  const iovec part{memory, kLargestBlock};
  const bool refused =
      preadv2(fd, &part, 1, 0, RWF_NOWAIT) < 0 && (errno == EOPNOTSUPP || errno == EINVAL);
  std::free(memory);
  return !refused;
}

void describe_file(const Opening& opening, Geometry& geometry) {
  const dev_t device = opening.status.st_dev;
  const DeviceQueue queue = read_device_queue(major(device), minor(device));
  geometry.bytes = static_cast<std::uint64_t>(opening.status.st_size);
  geometry.rotational = queue.rotational;
  geometry.physical_block = std::max(queue.physical_block, kSmallestBlock);
  geometry.discard = geometry.write_zeroes = true;  // a file system without says EOPNOTSUPP
  geometry.discard_granularity = static_cast<unsigned>(opening.status.st_blksize);
  geometry.discard_max_bytes = geometry.write_zeroes_max_bytes = kUnlimitedBytes;
  geometry.discard_fallocate_mode = kPunch;
  geometry.write_zeroes_fallocate_mode = kZero;
}

Result<void> describe_device(const Opening& opening, unsigned& block, Geometry& geometry) {
  const int fd = opening.file.get();
  int logical = 0;
  unsigned physical = 0;
  if (ioctl(fd, BLKGETSIZE64, &geometry.bytes) != 0 || ioctl(fd, BLKSSZGET, &logical) != 0 ||
      ioctl(fd, BLKPBSZGET, &physical) != 0) {
    const int code = errno;
    return opening.failed(
        code, fmt::format("its size and blocks cannot be read: {}", std::strerror(code)));
  }
  const dev_t device = opening.status.st_rdev;
  const DeviceQueue queue = read_device_queue(major(device), minor(device));
  block = static_cast<unsigned>(logical);
  geometry.is_block_device = true;
  geometry.physical_block = physical;
  geometry.io_min = queue.io_min;
  geometry.io_opt = queue.io_opt;
  geometry.rotational = queue.rotational;
  // Who punches a hole into the block file reads zeroes there, which BLKDISCARD does not promise.
  // A device is punched by write zeroes that may free the blocks, so it needs both.
  geometry.discard = queue.discard_max_bytes > 0 && queue.write_zeroes_max_bytes > 0;
  geometry.discard_granularity = geometry.discard ? queue.discard_granularity : 0;
  geometry.discard_max_bytes = geometry.discard ? queue.discard_max_bytes : 0;
  geometry.write_zeroes = queue.write_zeroes_max_bytes > 0;
  geometry.write_zeroes_max_bytes = queue.write_zeroes_max_bytes;
  geometry.discard_fallocate_mode = kPunch;
  geometry.write_zeroes_fallocate_mode = kZero;
  return {};
}

// The geometry of an opened and locked path; sets O_DIRECT on the way.
Result<Geometry> describe(Opening& opening, bool memory) {
  Geometry geometry;
  geometry.read_only = opening.options.read_only;
  unsigned block = kSmallestBlock;
  if (S_ISBLK(opening.status.st_mode)) {
    if (auto known = describe_device(opening, block, geometry); !known) {
      return tl::unexpected(known.error());
    }
  } else {
    describe_file(opening, geometry);
  }
  const int fd = opening.file.get();
  const DirectAlignment direct = memory ? DirectAlignment{} : make_direct(fd);
  if (direct.offset != 0) {
    geometry.direct = true;
    geometry.direct_alignment = direct.offset;
    geometry.memory_alignment = direct.memory;
  } else if (!memory) {
    log(Level::warning, "{}: no direct I/O here, its I/O goes through the page cache",
        opening.options.path);
  }
  if (memory) geometry.write_zeroes_fallocate_mode = kPunch;  // tmpfs has no zero range
  if (!memory && !takes_nowait(fd)) {
    log(Level::notice, "{}: takes no RWF_NOWAIT, its I/O goes through kernel helper threads",
        opening.options.path);
  }
  const auto settled = settle_blocks(opening.options, opening.options.path,
                                     std::max(block, geometry.direct_alignment), geometry);
  if (!settled) return tl::unexpected(settled.error());
  geometry.description =
      fmt::format("{} ({}{}{})", opening.options.path,
                  geometry.is_block_device ? "block device" : (memory ? "file on tmpfs" : "file"),
                  geometry.direct ? ", O_DIRECT" : "", geometry.read_only ? ", read-only" : "");
  return geometry;
}

}  // namespace

Result<std::unique_ptr<Backing>> open_path_backing(const BackingOptions& options) {
  const Result<std::string> place = resolve_place(options.path);
  if (!place) return tl::unexpected(place.error());
  Opening opening{.options = options, .status = {}, .file = {}};
  if (!options.directory.empty()) {
    const std::string directory = resolve_directory(options.directory);
    if (is_below(directory, *place)) {
      return opening.failed(EINVAL, fmt::format("lies inside {}, which elevd serves itself, "
                                                "expected a file outside it",
                                                directory));
    }
  }
  if (auto step = check_type(opening, *place); !step) return tl::unexpected(step.error());
  if (auto step = open_file(opening, *place); !step) return tl::unexpected(step.error());
  bool memory = false;
  if (S_ISREG(opening.status.st_mode)) {
    if (auto step = lock_file(opening); !step) return tl::unexpected(step.error());
    struct statfs system {};
    memory = fstatfs(opening.file.get(), &system) == 0 &&
             static_cast<unsigned long>(system.f_type) == kTmpfsMagic;
  }
  Result<Geometry> geometry = describe(opening, memory);
  if (!geometry) return tl::unexpected(geometry.error());
  return std::make_unique<FileBacking>(memory ? BackingKind::inline_ : BackingKind::uring,
                                       std::move(opening.file), std::move(*geometry));
}

}  // namespace elevd::daemon
