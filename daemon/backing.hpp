// SPDX-License-Identifier: Apache-2.0
// Backing: the bytes behind a disk: a file, a block device, memory, or nothing.
//
// Owns:       its descriptor (with the lock on it) or its memory, until it is destroyed.
// Thread:     after open_backing() immutable but for the data itself: every function may be called
//             from any thread, there is no lock. Overlapping concurrent I/O has the order its
//             issuer gave it, that is none.
// Time:       open_backing() may wait up to `lock_wait` for a lock. Functions of an inline backing
//             take as long as a copy; discard, write_zeroes, flush and seek of the others may
//             sleep.
// Invariants: (1) geometry().bytes is a multiple of geometry().logical_block and not 0;
//             (2) nothing here changes the size of a backing;
//             (3) every call stays inside [0, bytes), which is asserted.
// See also:   design, section 5 (backings).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "descriptor.hpp"
#include "error.hpp"

namespace elevd::daemon {

enum class BackingKind {
  uring,    // the worker submits SQEs on fd()
  inline_,  // the worker calls read() and write(), which never wait for a device
};

// What a backing is and what it asks of its I/O. Sizes in bytes.
struct Geometry {
  std::uint64_t bytes = 0;        // rounded down to a logical block
  unsigned logical_block = 512;   // power of two, 512 to 4096
  unsigned physical_block = 512;  // power of two, at least logical_block
  unsigned io_min = 512;          // at least physical_block
  unsigned io_opt = 0;            // 0: none
  bool rotational = false;
  bool read_only = false;
  bool discard = false;
  unsigned discard_granularity = 0;     // 0 without discard
  std::uint64_t discard_max_bytes = 0;  // 0 without discard
  bool write_zeroes = false;
  std::uint64_t write_zeroes_max_bytes = 0;  // 0 without write zeroes
  // Modes for IORING_OP_FALLOCATE on fd(); -1: for inline backings only, by discard() and
  // write_zeroes().
  int discard_fallocate_mode = -1;
  int write_zeroes_fallocate_mode = -1;
  bool direct = false;            // O_DIRECT is set on fd()
  unsigned direct_alignment = 1;  // of offset and length; 1 when not direct
  unsigned memory_alignment = 1;  // of the buffer's address; 1 when not direct
  bool is_block_device = false;
  std::string description;  // for the log: "/srv/a.img (file, O_DIRECT)"
};

class Backing {
 public:
  virtual ~Backing() = default;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  BackingKind kind() const { return kind_; }
  // The open file; -1 for null.
  int fd() const { return file_.get(); }
  const Geometry& geometry() const { return geometry_; }

  // Return the bytes done, all of them unless the backing ends before, or -errno: some may be done
  // then. The engine uses them for inline backings; on the others they are synchronous, and offset,
  // length and address must be aligned as geometry() says. A write to a read-only backing: -EROFS.
  virtual ssize_t read(std::uint64_t offset, std::span<std::byte> to) = 0;
  virtual ssize_t write(std::uint64_t offset, std::span<const std::byte> from) = 0;

  // The stored bytes themselves, to answer a read without a copy; null when there is no such thing
  // for this range, then use read(). Valid as long as the backing; later writes show through.
  virtual const std::byte* direct_read_view(std::uint64_t offset, std::size_t length) const;

  // Whether every read gives zeroes: a reader may provide them itself.
  virtual bool reads_zeroes() const { return false; }

  // Return 0 or -errno. -EOPNOTSUPP where the file system or device has no such operation.
  // Discarded ranges read as zeroes. A block device takes whole blocks only. Length 0 succeeds.
  virtual int discard(std::uint64_t offset, std::uint64_t length) = 0;
  virtual int write_zeroes(std::uint64_t offset, std::uint64_t length) = 0;
  // Makes everything acknowledged so far durable.
  virtual int flush() = 0;

  // lseek(2) with SEEK_DATA or SEEK_HOLE within the disk: a place, or -ENXIO (no data behind
  // `offset`, or `offset` at or behind the end), -EINVAL (another whence), another -errno.
  virtual off_t seek(std::uint64_t offset, int whence) = 0;

  // The last flush before the backing is closed: as flush(), and nothing to do when read-only.
  int flush_all() { return geometry_.read_only ? 0 : flush(); }

 protected:
  Backing(BackingKind kind, Descriptor file, Geometry geometry)
      : kind_(kind), file_(std::move(file)), geometry_(std::move(geometry)) {}

  // Asserts that [offset, offset + length) is inside the disk.
  void require_inside(std::uint64_t offset, std::uint64_t length) const;

 private:
  const BackingKind kind_;
  const Descriptor file_;
  const Geometry geometry_;
};

enum class BackingSource { path, ram, null };

struct BackingOptions {
  BackingSource source = BackingSource::path;
  std::string path = {};    // of a path backing
  std::uint64_t bytes = 0;  // of ram and null; a path backing has its own size
  bool read_only = false;
  unsigned logical_block_size = 0;  // 0: the default, else a power of two, 512 to 4096
  std::string directory = {};       // DIR: a backing inside it is refused. Empty: no such check
  std::chrono::milliseconds lock_wait{5000};  // how long another's lock is waited for
};

// Opens and locks a backing. Call it before anything is mounted below `directory`.
// Errors carry kExitBacking and name the backing: missing or not openable (errno of open), not a
// file or block device (EINVAL, EISDIR), in use or mounted (EBUSY), inside `directory` (EINVAL),
// smaller than a block (EINVAL), a logical block size it cannot have (EINVAL).
// Rounding, missing O_DIRECT and missing RWF_NOWAIT are logged.
Result<std::unique_ptr<Backing>> open_backing(const BackingOptions& options);

}  // namespace elevd::daemon
