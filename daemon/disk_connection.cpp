// SPDX-License-Identifier: Apache-2.0
#include "disk_connection.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <vector>

#include "fuse_log.hpp"
#include "fuse_uring.hpp"
#include "pools.hpp"
#include "session_arguments.hpp"

namespace elevd::daemon {
namespace {

constexpr double kAttributeSeconds = 86400;  // the size of a disk does not change
// Bits of flags2 and of OPEN that the headers of Debian 12 may not know (docs/spec/fuse.md 2).
constexpr std::uint32_t kInitExt = 1U << 30;
constexpr std::uint32_t kHandleKillprivV2 = 1U << 28;  // no attribute look-ups before writes
constexpr std::uint32_t kDirectIoAllowMmap2 = 1U << (36 - 32);
constexpr std::uint32_t kOpenParallelDirectWrites = 64;
constexpr std::uint32_t kOpenNoFlush = 32;

std::int64_t in_ns(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

timespec in_timespec(std::int64_t ns) {
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

std::int64_t wall_clock_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return in_ns(time);
}

/// Where the answer of the request goes that libfuse handles in this thread.
thread_local ReplySink* current_sink = nullptr;

constexpr const char* kUringParameter = "/sys/module/fuse/parameters/enable_uring";

}  // namespace

UringOffer look_for_uring() {
  std::ifstream file(kUringParameter);
  char value = 0;
  if (!file.get(value)) return {false, "this kernel has no FUSE over io_uring (Linux 6.14 has)"};
  if (value == 'Y') return {true, {}};
  return {false, std::string("fuse.enable_uring is off: echo Y > ") + kUringParameter +
                     ", or for good 'options fuse enable_uring=1' in /etc/modprobe.d/fuse.conf"};
}

/// The operations that libfuse calls; `userdata` is the connection.
struct DiskOperations {
  static DiskConnection& of(fuse_req_t req) {
    return *static_cast<DiskConnection*>(fuse_req_userdata(req));
  }

  static void init(void* userdata, fuse_conn_info* conn) {
    auto& self = *static_cast<DiskConnection*>(userdata);
    conn->max_write = self.max_payload_;
    conn->max_read = self.max_payload_;
    conn->max_readahead = self.max_payload_;
    conn->max_background = self.max_background_;
    conn->congestion_threshold = self.max_background_ / 4 * 3;
    conn->time_gran = 1;
    // Splicing and write-back caching hide the issuer and the alignment; the kernel does the locks.
    constexpr unsigned kOff = FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE | FUSE_CAP_SPLICE_READ |
                              FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_POSIX_LOCKS |
                              FUSE_CAP_FLOCK_LOCKS;
    constexpr unsigned kOn = FUSE_CAP_ASYNC_DIO | FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS |
                             FUSE_CAP_ATOMIC_O_TRUNC;
    conn->want = (conn->want | (kOn & conn->capable)) & ~kOff;
  }

  static struct stat attributes(const DiskConnection& self) {
    struct stat st {};
    st.st_ino = FUSE_ROOT_ID;
    st.st_mode = S_IFREG | self.mode_.load();
    st.st_nlink = 1;
    st.st_uid = self.uid_.load();
    st.st_gid = self.gid_.load();
    st.st_size = static_cast<off_t>(self.file_.bytes);
    st.st_blksize = static_cast<blksize_t>(kPage);
    st.st_blocks = static_cast<blkcnt_t>(self.file_.bytes / 512);
    st.st_atim = in_timespec(self.atime_ns_.load());
    st.st_mtim = in_timespec(self.mtime_ns_.load());
    st.st_ctim = st.st_mtim;
    return st;
  }

  static void getattr(fuse_req_t req, fuse_ino_t, fuse_file_info*) {
    const struct stat st = attributes(of(req));
    fuse_reply_attr(req, &st, kAttributeSeconds);
  }

  /// Truncation to at most the size succeeds and changes nothing: dd with seek= does that to what
  /// looks like a regular file. Beyond it is EFBIG.
  static void setattr(fuse_req_t req, fuse_ino_t, struct stat* attr, int to_set, fuse_file_info*) {
    DiskConnection& self = of(req);
    if ((to_set & FUSE_SET_ATTR_SIZE) != 0 &&
        (attr->st_size < 0 || static_cast<std::uint64_t>(attr->st_size) > self.file_.bytes)) {
      fuse_reply_err(req, EFBIG);
      return;
    }
    if ((to_set & FUSE_SET_ATTR_MODE) != 0) self.mode_.store(attr->st_mode & 07777U);
    if ((to_set & FUSE_SET_ATTR_UID) != 0) self.uid_.store(attr->st_uid);
    if ((to_set & FUSE_SET_ATTR_GID) != 0) self.gid_.store(attr->st_gid);
    if ((to_set & FUSE_SET_ATTR_ATIME_NOW) != 0) {
      self.atime_ns_.store(wall_clock_ns());
    } else if ((to_set & FUSE_SET_ATTR_ATIME) != 0) {
      self.atime_ns_.store(in_ns(attr->st_atim));
    }
    if ((to_set & FUSE_SET_ATTR_MTIME_NOW) != 0) {
      self.mtime_ns_.store(wall_clock_ns());
    } else if ((to_set & FUSE_SET_ATTR_MTIME) != 0) {
      self.mtime_ns_.store(in_ns(attr->st_mtim));
    }
    const struct stat st = attributes(self);
    fuse_reply_attr(req, &st, kAttributeSeconds);
  }

  /// libfuse 3.14 has no field for parallel direct writes: the reply is made by hand.
  static void open(fuse_req_t req, fuse_ino_t, fuse_file_info* fi) {
    if (of(req).file_.read_only && (fi->flags & O_ACCMODE) != O_RDONLY) {
      fuse_reply_err(req, EROFS);
      return;
    }
    fuse_open_out out{};
    out.open_flags = FOPEN_DIRECT_IO | kOpenParallelDirectWrites | kOpenNoFlush;
    fuse_reply_buf(req, reinterpret_cast<const char*>(&out), sizeof(out));
  }

  static void release(fuse_req_t req, fuse_ino_t, fuse_file_info*) { fuse_reply_err(req, 0); }

  /// Only numbers whose argument size is coded in them arrive with room for an answer.
  static void ioctl(fuse_req_t req, fuse_ino_t, unsigned cmd, void*, fuse_file_info*, unsigned,
                    const void*, size_t, size_t out_bytes) {
    const BlockFile& file = of(req).file_;
    if (cmd == BLKGETSIZE64 && out_bytes >= sizeof(std::uint64_t)) {
      fuse_reply_ioctl(req, 0, &file.bytes, sizeof(file.bytes));
    } else if (cmd == BLKBSZGET && out_bytes >= sizeof(std::uint32_t)) {
      // The number says size_t, the kernel stores an int, and so do callers.
      fuse_reply_ioctl(req, 0, &file.block_size, sizeof(file.block_size));
    } else {
      fuse_reply_err(req, ENOTTY);
    }
  }

  static void statfs(fuse_req_t req, fuse_ino_t) {
    struct statvfs st {};
    st.f_bsize = kPage;
    st.f_frsize = kPage;
    st.f_blocks = of(req).file_.bytes / kPage;
    st.f_namemax = 255;
    fuse_reply_statfs(req, &st);
  }

  static const fuse_lowlevel_ops& table() {
    static const fuse_lowlevel_ops operations = [] {
      fuse_lowlevel_ops ops{};
      ops.init = init;
      ops.getattr = getattr;
      ops.setattr = setattr;
      ops.open = open;
      ops.release = release;
      ops.ioctl = ioctl;
      ops.statfs = statfs;
      return ops;
    }();
    return operations;
  }

  /// Replies of libfuse pass here; the first is that of INIT, which libfuse 3.14 cannot make as
  /// docs/spec/fuse.md section 3 wants it.
  static ssize_t write_reply(int fd, struct iovec* iov, int count, void* userdata) {
    if (current_sink != nullptr) {
      return current_sink->write({iov, static_cast<std::size_t>(count)});
    }
    auto& self = *static_cast<DiskConnection*>(userdata);
    fuse_init_out patched{};
    if (!self.init_answered_.exchange(true) && count >= 2 && iov[1].iov_len <= sizeof(patched)) {
      std::memcpy(&patched, iov[1].iov_base, iov[1].iov_len);
      patched.max_pages = static_cast<std::uint16_t>(self.max_payload_ / kPage + 1);
      patched.flags |= self.offered_flags_ & kHandleKillprivV2;
      if (self.offers_mmap_) {
        patched.flags |= kInitExt;
        patched.flags2 |= kDirectIoAllowMmap2;
      }
      if (self.uses_uring_) {
        patched.flags |= kInitExt;
        patched.flags2 |= kOverIoUring2;
      }
      std::array<iovec, 2> reply{iov[0], iovec{&patched, iov[1].iov_len}};
      return writev(fd, reply.data(), 2);
    }
    return writev(fd, iov, count);
  }

  static ssize_t read_request(int fd, void* buffer, size_t bytes, void*) {
    return ::read(fd, buffer, bytes);
  }
};

DiskConnection::DiskConnection(std::string path, const BlockFile& file)
    : path_(std::move(path)),
      file_(file),
      mode_(file.read_only ? 0440U : 0660U),
      uid_(getuid()),
      gid_(getgid()) {
  atime_ns_.store(wall_clock_ns());
  mtime_ns_.store(wall_clock_ns());
}

DiskConnection::~DiskConnection() {
  if (session_ == nullptr) return;
  const FuseMessages unmounted_already;  // it may say so, and that is as it should be
  fuse_session_unmount(session_);
  fuse_session_destroy(session_);
}

Result<void> DiskConnection::mount(unsigned max_background, bool uring) {
  max_background_ = max_background;
  uses_uring_ = uring;
  max_payload_ = uring ? kMaxRingPayload : kMaxPayload;
  FuseMessages messages;
  SessionArguments arguments("default_permissions,max_read=" + std::to_string(max_payload_));
  const fuse_lowlevel_ops& operations = DiskOperations::table();
  session_ = fuse_session_new(arguments.get(), &operations, sizeof(operations), this);
  const auto failed = [this](int code, const std::string& why) {
    return tl::unexpected(
        Error{code, "cannot mount a disk on " + path_ + ": " + why, kExitDirectory});
  };
  if (session_ == nullptr) return failed(EINVAL, messages.text());
  if (fuse_session_mount(session_, path_.c_str()) != 0) {
    return failed(EIO, messages.text().empty() ? "fusermount3 failed" : messages.text());
  }
  fd_ = fuse_session_fd(session_);
  fuse_custom_io io{};
  io.writev = DiskOperations::write_reply;
  io.read = DiskOperations::read_request;
  if (const int error = fuse_session_custom_io(session_, &io, fd_); error != 0) {
    return failed(-error, "libfuse refused custom I/O");
  }
  return answer_init();
}

/// The first request of a connection is INIT, and nothing else comes before it is answered.
Result<void> DiskConnection::answer_init() {
  std::vector<std::byte> buffer(kBufferStride);
  ssize_t n = 0;
  do {
    n = read(fd_, buffer.data(), buffer.size());
  } while (n < 0 && (errno == EINTR || errno == ENOENT));
  if (n < static_cast<ssize_t>(sizeof(fuse_in_header))) {
    return tl::unexpected(Error{errno, path_ + ": the kernel sent no INIT", kExitDirectory});
  }
  const auto& header = *reinterpret_cast<const fuse_in_header*>(buffer.data());
  const auto& init = *reinterpret_cast<const fuse_init_in*>(buffer.data() + sizeof(header));
  offered_flags_ = init.flags;
  const bool extended = header.opcode == FUSE_INIT &&
                        static_cast<std::size_t>(n) >= sizeof(header) + sizeof(init) &&
                        (init.flags & kInitExt) != 0;
  offers_mmap_ = extended && (init.flags2 & kDirectIoAllowMmap2) != 0;
  uses_uring_ = uses_uring_ && extended && (init.flags2 & kOverIoUring2) != 0;
  process(buffer.data(), static_cast<std::size_t>(n));
  const int flags = fcntl(fd_, F_GETFL);
  if (flags < 0 || fcntl(fd_, F_SETFL, flags | O_NONBLOCK) != 0) {
    return tl::unexpected(Error{errno, path_ + ": cannot make it non-blocking", kExitDirectory});
  }
  return {};
}

void DiskConnection::process(void* request, std::size_t bytes, ReplySink* sink) {
  current_sink = sink;
  fuse_buf buffer{};
  buffer.size = bytes;
  buffer.mem = request;
  fuse_session_process_buf(session_, &buffer);
  current_sink = nullptr;
}

}  // namespace elevd::daemon
