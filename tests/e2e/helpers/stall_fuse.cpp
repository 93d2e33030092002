// SPDX-License-Identifier: Apache-2.0
// stall_fuse: a file in memory that holds its answers until told to give them. The stalled disk of
// the end-to-end tests.
//
//   stall_fuse FILE SIZE SOCKET          mounts on the regular file FILE, SIZE bytes, and serves;
//                                        ends at SIGTERM or when unmounted
//   stall_fuse --control SOCKET COMMAND  sends a command, prints the answer, exits 0 if it was done
//
// Commands: stall [read] [write] [fsync]   hold these from now on (all three without words)
//           release N | release all        answer the N oldest held; "all" also stops holding
//           error ERRNO                    answer every held request with that number, hold on
//           fail ERRNO                     answer what comes from now on with that number; 0: no
//           more held                           how many are held now count read|write|fsync how
//           many have arrived since the start
//
// Threads: the main thread runs libfuse's loop, one more serves the socket. One mutex guards all.
// A held WRITE has stored its data already: only the answer is held.

#define FUSE_USE_VERSION 35

#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

enum Kind : unsigned { kRead = 0, kWrite = 1, kFsync = 2 };
constexpr const char* kKindNames[] = {"read", "write", "fsync"};

struct Held {
  fuse_req_t request;
  Kind kind;
  std::size_t offset;
  std::size_t length;
};

class Disk {
 public:
  explicit Disk(std::size_t size) : bytes_(size) {}

  std::size_t size() const { return bytes_.size(); }

  void arrived(fuse_req_t request, Kind kind, std::size_t offset, std::size_t length) {
    const std::lock_guard lock(mutex_);
    ++counts_[kind];
    const Held held{request, kind, offset, length};
    if (fails_ != 0) {
      answer(held, fails_);
    } else if (holds_[kind]) {
      held_.push_back(held);
    } else {
      answer(held, 0);
    }
  }

  void store(std::size_t offset, const char* data, std::size_t length) {
    const std::lock_guard lock(mutex_);
    std::copy_n(data, length, bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  // The answer to one command line; begins with "?" when it was not understood.
  std::string command(const std::string& line);

 private:
  void answer(const Held& held, int error) {
    if (error != 0) {
      fuse_reply_err(held.request, error);
    } else if (held.kind == kRead) {
      fuse_reply_buf(held.request, bytes_.data() + held.offset, held.length);
    } else if (held.kind == kWrite) {
      fuse_reply_write(held.request, held.length);
    } else {
      fuse_reply_err(held.request, 0);
    }
  }

  std::size_t answer_oldest(std::size_t most, int error) {
    std::size_t done = 0;
    for (; done < most && !held_.empty(); ++done) {
      answer(held_.front(), error);
      held_.pop_front();
    }
    return done;
  }

  std::mutex mutex_;
  std::vector<char> bytes_;
  std::deque<Held> held_;
  bool holds_[3] = {false, false, false};
  int fails_ = 0;  // errno for all that comes
  std::size_t counts_[3] = {0, 0, 0};
};

std::string Disk::command(const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  std::string word;
  words >> verb;
  const std::lock_guard lock(mutex_);
  if (verb == "held") return std::to_string(held_.size());
  if (verb == "stall") {
    bool any = false;
    while (words >> word) {
      for (unsigned kind = kRead; kind <= kFsync; ++kind) {
        if (word == kKindNames[kind]) any = holds_[kind] = true;
      }
    }
    if (!any) std::fill(std::begin(holds_), std::end(holds_), true);
    return "ok";
  }
  words >> word;
  if (verb == "count") {
    for (unsigned kind = kRead; kind <= kFsync; ++kind) {
      if (word == kKindNames[kind]) return std::to_string(counts_[kind]);
    }
  }
  if (verb == "release" && word == "all") {
    std::fill(std::begin(holds_), std::end(holds_), false);
    return std::to_string(answer_oldest(held_.size(), 0));
  }
  const int value = std::atoi(word.c_str());
  if (verb == "release" && value > 0) {
    return std::to_string(answer_oldest(static_cast<std::size_t>(value), 0));
  }
  if (verb == "error" && value > 0) return std::to_string(answer_oldest(held_.size(), value));
  if (verb == "fail" && (value > 0 || word == "0")) {
    fails_ = value;
    return "ok";
  }
  return "? " + line;
}

Disk& disk_of(fuse_req_t request) { return *static_cast<Disk*>(fuse_req_userdata(request)); }

struct stat attributes(const Disk& disk) {
  struct stat s {};
  s.st_ino = FUSE_ROOT_ID;
  s.st_mode = S_IFREG | 0666;
  s.st_nlink = 1;
  s.st_size = static_cast<off_t>(disk.size());
  s.st_blksize = 4096;
  return s;
}

void on_init(void*, fuse_conn_info* connection) {
  connection->max_background = 4096;
  connection->congestion_threshold = 4096;
}

void on_getattr(fuse_req_t request, fuse_ino_t, fuse_file_info*) {
  const struct stat s = attributes(disk_of(request));
  fuse_reply_attr(request, &s, 3600.0);
}

void on_setattr(fuse_req_t request, fuse_ino_t, struct stat*, int, fuse_file_info*) {
  const struct stat s = attributes(disk_of(request));
  fuse_reply_attr(request, &s, 3600.0);
}

// docs/spec/fuse.md section 6: libfuse 3.14 has no field for parallel direct writes.
void on_open(fuse_req_t request, fuse_ino_t, fuse_file_info*) {
  fuse_open_out out{};
  out.open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES | FOPEN_NOFLUSH;
  fuse_reply_buf(request, reinterpret_cast<const char*>(&out), sizeof out);
}

void on_read(fuse_req_t request, fuse_ino_t, std::size_t size, off_t at, fuse_file_info*) {
  Disk& disk = disk_of(request);
  const std::size_t offset = std::min(static_cast<std::size_t>(at), disk.size());
  disk.arrived(request, kRead, offset, std::min(size, disk.size() - offset));
}

void on_write(fuse_req_t request, fuse_ino_t, const char* data, std::size_t size, off_t at,
              fuse_file_info*) {
  Disk& disk = disk_of(request);
  const auto offset = static_cast<std::size_t>(at);
  if (offset >= disk.size()) {
    fuse_reply_err(request, ENOSPC);
    return;
  }
  const std::size_t length = std::min(size, disk.size() - offset);
  disk.store(offset, data, length);
  disk.arrived(request, kWrite, offset, length);
}

void on_fsync(fuse_req_t request, fuse_ino_t, int, fuse_file_info*) {
  disk_of(request).arrived(request, kFsync, 0, 0);
}

bool fill_address(sockaddr_un& address, const char* path) {
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) return false;
  std::strcpy(address.sun_path, path);
  return true;
}

int control(const char* path, const std::string& line) {
  sockaddr_un address{};
  if (!fill_address(address, path)) return 2;
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    std::perror("stall_fuse: connect");
    return 1;
  }
  char answer[128];
  if (::send(fd, line.data(), line.size(), MSG_NOSIGNAL) < 0) return 1;
  const ssize_t got = ::recv(fd, answer, sizeof answer, 0);
  ::close(fd);
  if (got <= 0) return 1;
  std::printf("%.*s\n", static_cast<int>(got), answer);
  return answer[0] == '?' ? 2 : 0;
}

void serve_commands(int listener, Disk& disk) {
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    char line[128];
    const ssize_t got = ::recv(fd, line, sizeof line, 0);
    if (got > 0) {
      const std::string answer = disk.command(std::string(line, static_cast<std::size_t>(got)));
      ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    ::close(fd);
  }
}

int serve(const char* file, std::size_t size, const char* socket_path) {
  Disk disk(size);
  fuse_lowlevel_ops operations{};
  operations.init = on_init;
  operations.getattr = on_getattr;
  operations.setattr = on_setattr;
  operations.open = on_open;
  operations.read = on_read;
  operations.write = on_write;
  operations.fsync = on_fsync;
  char program[] = "stall_fuse";
  char option[] = "-ofsname=stall,subtype=stall";
  char* arguments[] = {program, option, nullptr};
  fuse_args args = FUSE_ARGS_INIT(2, arguments);
  fuse_session* fuse = fuse_session_new(&args, &operations, sizeof operations, &disk);
  sockaddr_un address{};
  if (fuse == nullptr || !fill_address(address, socket_path)) return 1;
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0 ||
      ::listen(listener, 16) < 0) {
    std::perror("stall_fuse: socket");
    return 1;
  }
  if (fuse_set_signal_handlers(fuse) != 0 || fuse_session_mount(fuse, file) != 0) return 1;
  std::thread commands(serve_commands, listener, std::ref(disk));
  const int result = fuse_session_loop(fuse);
  ::shutdown(listener, SHUT_RDWR);
  commands.join();
  disk.command("release all");
  fuse_session_unmount(fuse);
  fuse_remove_signal_handlers(fuse);
  fuse_session_destroy(fuse);
  fuse_opt_free_args(&args);
  ::close(listener);
  ::unlink(socket_path);
  return result == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 4 && std::strcmp(argv[1], "--control") == 0) {
    std::string line = argv[3];
    for (int i = 4; i < argc; ++i) line += std::string(" ") + argv[i];
    return control(argv[2], line);
  }
  if (argc == 4 && std::atoll(argv[2]) > 0) {
    return serve(argv[1], static_cast<std::size_t>(std::atoll(argv[2])), argv[3]);
  }
  std::fprintf(stderr, "usage: stall_fuse FILE SIZE SOCKET | --control SOCKET COMMAND...\n");
  return 2;
}
