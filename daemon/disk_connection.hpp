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
#include <string>

#include "error.hpp"

struct fuse_session;

namespace elevd::daemon {

/// What GETATTR and OPEN need to know.
struct BlockFile {
  std::uint64_t bytes = 0;
  std::uint32_t block_size = 512;  ///< logical block in bytes, what BLKBSZGET answers
  bool read_only = false;
};

class DiskConnection {
 public:
  DiskConnection(std::string path, const BlockFile& file);
  ~DiskConnection();
  DiskConnection(const DiskConnection&) = delete;
  DiskConnection& operator=(const DiskConnection&) = delete;

  /// Mounts on `path` (an empty regular file) and answers INIT. `max_background`: requests the
  /// kernel lets through at once. After it the descriptor is non-blocking.
  Result<void> mount(unsigned max_background);

  /// The descriptor requests come from and answers go to.
  [[nodiscard]] int fd() const { return fd_; }

  /// Lets libfuse handle one request, `bytes` long, that is no I/O.
  void process(void* request, std::size_t bytes);

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
  bool offers_mmap_ = false;         ///< the kernel can do shared mappings beside direct I/O
  std::atomic<bool> init_answered_{false};
  std::atomic<std::uint32_t> mode_;
  std::atomic<std::uint32_t> uid_;
  std::atomic<std::uint32_t> gid_;
  std::atomic<std::int64_t> atime_ns_{0};
  std::atomic<std::int64_t> mtime_ns_{0};
};

}  // namespace elevd::daemon
