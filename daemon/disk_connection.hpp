// SPDX-License-Identifier: Apache-2.0
// DiskConnection: the FUSE connection of one disk, whose root is the block file itself.
//
// Owns:       the libfuse session and its mount.
// Thread:     mount and unmount by the main thread; process() from any worker.
// Invariants: (1) libfuse owns mounting, INIT and everything that is not I/O on the block file;
//             (2) the INIT reply promises one page more than max_write needs.
// See also:   docs/spec/fuse.md sections 3, 4, 6, 11; dev_front.hpp (who reads the descriptor).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "error.hpp"

struct fuse_session;
struct iovec;

namespace elevd::daemon {

/// What GETATTR and OPEN need to know.
struct BlockFile {
  std::uint64_t bytes = 0;
  std::uint32_t block_size = 512;  ///< logical block in bytes, what BLKBSZGET answers
  bool read_only = false;
};

/// Where an answer of libfuse goes instead of to the descriptor.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  /// As writev(2): `parts` begins with a fuse_out_header.
  virtual ssize_t write(std::span<const iovec> parts) = 0;
};

/// Whether the kernel offers FUSE over io_uring; the reason and the remedy if not.
struct UringOffer {
  bool offered = false;
  std::string reason;
};
[[nodiscard]] UringOffer look_for_uring();

class DiskConnection {
 public:
  DiskConnection(std::string path, const BlockFile& file);
  ~DiskConnection();
  DiskConnection(const DiskConnection&) = delete;
  DiskConnection& operator=(const DiskConnection&) = delete;

  /// Mounts on `path` (an empty regular file) and answers INIT. `max_background`: requests the
  /// kernel lets through at once. After it the descriptor is non-blocking. `uring`: asks for that
  /// transport; then nothing is served until every queue has an entry.
  Result<void> mount(unsigned max_background, bool uring);

  /// The kernel agreed to FUSE over io_uring.
  [[nodiscard]] bool uses_uring() const { return uses_uring_; }

  /// The descriptor requests come from and answers go to.
  [[nodiscard]] int fd() const { return fd_; }

  /// Lets libfuse handle one request, `bytes` long, that is no I/O. The answer goes to `sink`, or
  /// to the descriptor without one.
  void process(void* request, std::size_t bytes, ReplySink* sink = nullptr);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const BlockFile& file() const { return file_; }

 private:
  friend struct DiskOperations;

  Result<void> answer_init();

  std::string path_;
  BlockFile file_;
  fuse_session* session_ = nullptr;
  int fd_ = -1;
  unsigned max_background_ = 0;
  std::uint32_t offered_flags_ = 0;  ///< flags of the INIT request
  std::uint32_t max_payload_ = 0;    ///< bytes of one READ or WRITE
  bool uses_uring_ = false;
  bool offers_mmap_ = false;  ///< the kernel can do shared mappings beside direct I/O
  std::atomic<bool> init_answered_{false};
  std::atomic<std::uint32_t> mode_;
  std::atomic<std::uint32_t> uid_;
  std::atomic<std::uint32_t> gid_;
  std::atomic<std::int64_t> atime_ns_{0};
  std::atomic<std::int64_t> mtime_ns_{0};
};

}  // namespace elevd::daemon
