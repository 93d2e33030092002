// SPDX-License-Identifier: Apache-2.0
// file_probe: does one thing to a file, with exactly the system calls named, and prints what came
// of it: "ok", "ok N" (bytes), a value, or the name of the errno. Always exits 0 once it could do
// the thing asked for, 2 for wrong usage. For scripts that check a file system call by call.
//
// SIGINT is caught without SA_RESTART, so that an interrupted call shows as EINTR.

#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

using Arguments = std::vector<std::string>;

constexpr std::size_t kPage = 4096;

[[noreturn]] void usage(const std::string& why) {
  std::fprintf(stderr, "file_probe: %s\n", why.c_str());
  std::exit(2);
}

std::string error_name(int error) {
  const char* name = strerrorname_np(error);
  return name != nullptr ? name : std::to_string(error);
}

void print_failure() { std::printf("%s\n", error_name(errno).c_str()); }

// "ok" or the error of a call that returns 0 or -1.
void print_outcome(int result) {
  if (result < 0) {
    print_failure();
  } else {
    std::printf("ok\n");
  }
}

// "ok N" or the error of a call that returns a count or -1.
void print_count(std::int64_t result) {
  if (result < 0) {
    print_failure();
  } else {
    std::printf("ok %" PRId64 "\n", result);
  }
}

std::int64_t number(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const std::int64_t value = std::strtoll(text.c_str(), &end, 0);
  if (errno != 0 || end == text.c_str() || *end != '\0') usage("not a number: " + text);
  return value;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  usage("bad \\x escape");
}

// Text with the escapes \n \t \r \0 \\ and \xHH (lower case) resolved.
std::string unescape(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) usage("text ends in a backslash");
    switch (text[i]) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case '0':
        out += '\0';
        break;
      case '\\':
        out += '\\';
        break;
      case 'x':
        if (i + 2 >= text.size()) usage("short \\x escape");
        out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
        i += 2;
        break;
      default:
        usage("unknown escape in " + text);
    }
  }
  return out;
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\0') {
      out += "\\0";
    } else {
      out += c;
    }
  }
  return out;
}

int flags_of(const std::string& words) {
  static const std::map<std::string, int> kFlags = {
      {"r", O_RDONLY},         {"w", O_WRONLY},
      {"rw", O_RDWR},          {"trunc", O_TRUNC},
      {"append", O_APPEND},    {"creat", O_CREAT},
      {"excl", O_EXCL},        {"direct", O_DIRECT},
      {"dsync", O_DSYNC},      {"directory", O_DIRECTORY},
      {"nonblock", O_NONBLOCK}};
  int flags = 0;
  std::size_t from = 0;
  while (from <= words.size()) {
    const std::size_t to = std::min(words.find(',', from), words.size());
    const auto found = kFlags.find(words.substr(from, to - from));
    if (found == kFlags.end()) usage("unknown open flag in " + words);
    flags |= found->second;
    from = to + 1;
  }
  return flags;
}

// An open file; one that cannot be opened ends the program with the error as the answer.
class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) {
      std::printf("open %s\n", error_name(errno).c_str());
      std::exit(0);
    }
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string read_once(int fd, std::size_t size) {
  std::string text(size, '\0');
  const ssize_t got = ::read(fd, text.data(), size);
  if (got < 0) return error_name(errno);
  text.resize(static_cast<std::size_t>(got));
  return text;
}

// --- opening and names ---------------------------------------------------------------------------

void do_open(const Arguments& a) {  // FILE FLAGS
  const int fd = ::open(a.at(0).c_str(), flags_of(a.at(1)) | O_CLOEXEC, 0644);
  print_outcome(fd);
  if (fd >= 0) ::close(fd);
}

void do_stat(const Arguments& a) {  // FILE: mode links size blocks block-size uid
  struct stat s {};
  if (::stat(a.at(0).c_str(), &s) < 0) return print_failure();
  std::printf("%06o %ju %jd %jd %jd %ju\n", s.st_mode, std::uintmax_t{s.st_nlink},
              std::intmax_t{s.st_size}, std::intmax_t{s.st_blocks}, std::intmax_t{s.st_blksize},
              std::uintmax_t{s.st_uid});
}

void do_setxattr(const Arguments& a) {  // FILE NAME VALUE
  print_outcome(::setxattr(a.at(0).c_str(), a.at(1).c_str(), a.at(2).data(), a.at(2).size(), 0));
}

// --- text files
// ------------------------------------------------------------------------------------

void do_write(const Arguments& a) {  // FILE TEXT [FLAGS]: one write call
  const File file(a.at(0), a.size() > 2 ? flags_of(a.at(2)) : O_WRONLY);
  const std::string text = unescape(a.at(1));
  print_count(::write(file.fd(), text.data(), text.size()));
}

// Lines "FILE TEXT" from standard input: one write call each, one line "ok" or ERRNO for each. A
// process for many stores, which under load costs less than one for every store.
void do_write_each(const Arguments&) {
  std::string path;
  std::string text;
  while (std::cin >> path >> text) {
    const File file(path, O_WRONLY);
    const bool done = ::write(file.fd(), text.data(), text.size()) >= 0;
    std::printf("%s\n", done ? "ok" : error_name(errno).c_str());
  }
}

void do_write_bytes(const Arguments& a) {  // FILE TEXT: one write call a byte, on one descriptor
  const File file(a.at(0), O_WRONLY);
  std::string answers;
  for (const char c : unescape(a.at(1))) {
    if (!answers.empty()) answers += ' ';
    answers += ::write(file.fd(), &c, 1) == 1 ? "ok" : error_name(errno);
  }
  std::printf("%s\n", answers.c_str());
}

void do_pwrite(const Arguments& a) {  // FILE OFFSET TEXT
  const File file(a.at(0), O_WRONLY);
  const std::string text = unescape(a.at(2));
  print_count(::pwrite(file.fd(), text.data(), text.size(), number(a.at(1))));
}

void do_writev(const Arguments& a) {  // FILE TEXT...: one writev call
  const File file(a.at(0), O_WRONLY);
  std::vector<std::string> texts;
  for (std::size_t i = 1; i < a.size(); ++i) texts.push_back(unescape(a[i]));
  std::vector<iovec> parts;
  for (std::string& text : texts) parts.push_back({text.data(), text.size()});
  print_count(::writev(file.fd(), parts.data(), static_cast<int>(parts.size())));
}

void do_read(const Arguments& a) {  // FILE SIZE...: successive reads, joined by |
  const File file(a.at(0), O_RDONLY);
  std::string out;
  for (std::size_t i = 1; i < a.size(); ++i) {
    if (i > 1) out += '|';
    out += escape(read_once(file.fd(), static_cast<std::size_t>(number(a[i]))));
  }
  std::printf("%s\n", out.c_str());
}

void do_pread(const Arguments& a) {  // FILE OFFSET SIZE
  const File file(a.at(0), O_RDONLY);
  std::string text(static_cast<std::size_t>(number(a.at(2))), '\0');
  const ssize_t got = ::pread(file.fd(), text.data(), text.size(), number(a.at(1)));
  if (got < 0) return print_failure();
  text.resize(static_cast<std::size_t>(got));
  std::printf("%s\n", escape(text).c_str());
}

// FILE TEXT: reads one byte, stores TEXT through another descriptor, reads the rest, then again
// from the start: "OLD|NEW". A snapshot leaves OLD whole.
void do_snapshot(const Arguments& a) {
  const File reader(a.at(0), O_RDONLY);
  std::string old = read_once(reader.fd(), 1);
  {
    const File writer(a.at(0), O_WRONLY);
    const std::string text = unescape(a.at(1));
    if (::write(writer.fd(), text.data(), text.size()) < 0) return print_failure();
  }
  old += read_once(reader.fd(), kPage);
  if (::lseek(reader.fd(), 0, SEEK_SET) != 0) return print_failure();
  std::printf("%s|%s\n", escape(old).c_str(), escape(read_once(reader.fd(), kPage)).c_str());
}

// --- block files
// -----------------------------------------------------------------------------------

// Memory that begins OFFSET bytes behind a page.
class Buffer {
 public:
  Buffer(std::size_t size, std::size_t offset)
      : size_(size + offset + kPage), offset_(offset), memory_(allocate(size_)) {}
  ~Buffer() { ::munmap(memory_, size_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  char* data() const { return static_cast<char*>(memory_) + offset_; }

 private:
  static void* allocate(std::size_t size) {
    void* memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) usage("no memory");
    return memory;
  }
  std::size_t size_;
  std::size_t offset_;
  void* memory_;
};

// The byte that belongs to a place of the file, for a given seed.
char pattern(std::int64_t at, std::int64_t seed) {
  const auto mixed = static_cast<std::uint64_t>(at + seed * 7919) * 0x9e3779b97f4a7c15U;
  return static_cast<char>(mixed >> 56);
}

int io_flags(const Arguments& a, std::size_t from) {
  int flags = 0;
  for (std::size_t i = from; i < a.size(); ++i) {
    if (a[i] == "dsync") {
      flags |= RWF_DSYNC;
    } else if (a[i] == "sync") {
      flags |= RWF_SYNC;
    } else if (a[i] == "nowait") {
      flags |= RWF_NOWAIT;
    } else {
      usage("unknown flag " + a[i]);
    }
  }
  return flags;
}

// FILE OFFSET SIZE MEMORY-OFFSET SEED [dsync|sync|nowait]...: one call, direct
void do_put(const Arguments& a) {
  const File file(a.at(0), O_WRONLY | O_DIRECT);
  const std::int64_t offset = number(a.at(1));
  const auto size = static_cast<std::size_t>(number(a.at(2)));
  const Buffer buffer(size, static_cast<std::size_t>(number(a.at(3))));
  const std::int64_t seed = number(a.at(4));
  for (std::size_t i = 0; i < size; ++i) {
    buffer.data()[i] = pattern(offset + static_cast<std::int64_t>(i), seed);
  }
  const iovec part = {buffer.data(), size};
  print_count(::pwritev2(file.fd(), &part, 1, offset, io_flags(a, 5)));
}

// FILE OFFSET SIZE MEMORY-OFFSET SEED: reads by one call and compares; "ok N", "differs at AT"
void do_get(const Arguments& a) {
  const File file(a.at(0), O_RDONLY | O_DIRECT);
  const std::int64_t offset = number(a.at(1));
  const auto size = static_cast<std::size_t>(number(a.at(2)));
  const Buffer buffer(size, static_cast<std::size_t>(number(a.at(3))));
  const ssize_t got = ::pread(file.fd(), buffer.data(), size, offset);
  for (std::int64_t i = 0; i < got; ++i) {
    if (buffer.data()[i] != pattern(offset + i, number(a.at(4)))) {
      std::printf("differs at %" PRId64 "\n", offset + i);
      return;
    }
  }
  print_count(got);
}

// Block I of a file of BLOCKS, as write-until-error leaves it in round R: the pattern of seed R
// + 1.
void fill_block(const Buffer& buffer, std::int64_t offset, std::int64_t seed) {
  for (std::size_t b = 0; b < kPage; ++b) {
    buffer.data()[b] = pattern(offset + static_cast<std::int64_t>(b), seed);
  }
}

// FILE BLOCKS PROGRESS: writes 4 KiB blocks in order, round after round, each round with other
// data; every answered one is counted in the file PROGRESS (a 64-bit number, mapped). Ends at the
// first error: "N ERRNO".
void do_write_until_error(const Arguments& a) {
  const File progress(a.at(2), O_RDWR | O_CREAT);
  if (::ftruncate(progress.fd(), kPage) < 0) return print_failure();
  void* shared = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, progress.fd(), 0);
  if (shared == MAP_FAILED) return print_failure();
  auto* answered = static_cast<volatile std::int64_t*>(shared);
  const File file(a.at(0), O_WRONLY | O_DIRECT);
  const std::int64_t blocks = number(a.at(1));
  const Buffer buffer(kPage, 0);
  for (std::int64_t i = 0;; ++i) {
    const std::int64_t offset = i % blocks * static_cast<std::int64_t>(kPage);
    fill_block(buffer, offset, i / blocks + 1);
    if (::pwrite(file.fd(), buffer.data(), kPage, offset) != static_cast<ssize_t>(kPage)) {
      std::printf("%" PRId64 " %s\n", i, error_name(errno).c_str());
      return;
    }
    *answered = i + 1;
  }
}

// FILE BLOCKS N: the file holds what write-until-error had been answered N times for; the block
// that comes next may be of either round. "ok" or "block I is lost".
void do_check_answered(const Arguments& a) {
  const File file(a.at(0), O_RDONLY);
  const std::int64_t blocks = number(a.at(1));
  const std::int64_t answered = number(a.at(2));
  const Buffer expected(kPage, 0);
  const Buffer found(kPage, 0);
  for (std::int64_t i = std::max<std::int64_t>(0, answered - blocks); i < answered; ++i) {
    if (i % blocks == answered % blocks) continue;  // was perhaps being written
    const std::int64_t offset = i % blocks * static_cast<std::int64_t>(kPage);
    fill_block(expected, offset, i / blocks + 1);
    if (::pread(file.fd(), found.data(), kPage, offset) != static_cast<ssize_t>(kPage) ||
        std::memcmp(expected.data(), found.data(), kPage) != 0) {
      std::printf("block %" PRId64 " is lost\n", i);
      return;
    }
  }
  std::printf("ok\n");
}

void do_progress(const Arguments& a) {  // PROGRESS: the number in it, 0 before there is one
  const File file(a.at(0), O_RDONLY | O_CREAT);
  std::int64_t value = 0;
  if (::read(file.fd(), &value, sizeof value) != static_cast<ssize_t>(sizeof value)) value = 0;
  std::printf("%" PRId64 "\n", value);
}

// A writer of `weave`: the bytes [from, from + size) of each period are written, of which nobody
// else writes [own, own + own_size).
struct Weaver {
  int fd;
  std::int64_t period;
  std::int64_t from;
  std::int64_t size;
  std::int64_t own;
  std::int64_t own_size;

  // What it writes in a round; others with another `from` write something else.
  std::int64_t seed(std::int64_t round) const { return round * 1009 + from; }

  bool write(const Buffer& buffer, std::int64_t place, std::int64_t round) const {
    const std::int64_t at = place * period + from;
    for (std::int64_t i = 0; i < size; ++i) buffer.data()[i] = pattern(at + i, seed(round));
    return ::pwrite(fd, buffer.data(), static_cast<std::size_t>(size), at) == size;
  }

  // Whether its own bytes are those of `round`; the first that is not is told otherwise.
  bool holds(const Buffer& buffer, std::int64_t place, std::int64_t round) const {
    const std::int64_t at = place * period + own;
    if (::pread(fd, buffer.data(), static_cast<std::size_t>(own_size), at) != own_size) {
      std::printf("read of round %" PRId64 ": %s\n", round, error_name(errno).c_str());
      return false;
    }
    for (std::int64_t i = 0; i < own_size; ++i) {
      if (buffer.data()[i] == pattern(at + i, seed(round))) continue;
      std::printf("lost at %" PRId64 " in round %" PRId64 "\n", at + i, round);
      return false;
    }
    return true;
  }
};

// FILE PERIODS PERIOD FROM SIZE OWN OWN-SIZE ROUNDS: one of several writers that share blocks. In
// each round it writes all its places, in an order of its own, and first looks whether the bytes
// that only it writes are still those of its last round. "ok", or what was lost.
void do_weave(const Arguments& a) {
  const File file(a.at(0), O_RDWR | O_DIRECT);
  const std::int64_t periods = number(a.at(1));
  const Weaver weaver{file.fd(),       number(a.at(2)), number(a.at(3)),
                      number(a.at(4)), number(a.at(5)), number(a.at(6))};
  const std::int64_t rounds = number(a.at(7));
  const Buffer buffer(static_cast<std::size_t>(weaver.size), 0);
  std::minstd_rand random(static_cast<unsigned>(weaver.from + 1));
  std::vector<std::int64_t> places(static_cast<std::size_t>(periods));
  std::iota(places.begin(), places.end(), 0);
  for (std::int64_t round = 1; round <= rounds + 1; ++round) {
    std::shuffle(places.begin(), places.end(), random);
    for (const std::int64_t place : places) {
      if (round > 1 && !weaver.holds(buffer, place, round - 1)) return;
      if (round <= rounds && !weaver.write(buffer, place, round)) return print_failure();
    }
  }
  std::printf("ok\n");
}

void do_fsync(const Arguments& a) {  // FILE
  const File file(a.at(0), O_RDWR);
  print_outcome(::fsync(file.fd()));
}

void do_fallocate(const Arguments& a) {  // FILE none|punch|zero|collapse|insert OFFSET SIZE
  static const std::map<std::string, int> kModes = {
      {"none", 0},
      {"punch", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
      {"zero", FALLOC_FL_ZERO_RANGE},
      {"collapse", FALLOC_FL_COLLAPSE_RANGE},
      {"insert", FALLOC_FL_INSERT_RANGE}};
  const auto mode = kModes.find(a.at(1));
  if (mode == kModes.end()) usage("unknown mode " + a.at(1));
  const File file(a.at(0), O_RDWR);
  print_outcome(::fallocate(file.fd(), mode->second, number(a.at(2)), number(a.at(3))));
}

// FILE OFFSET SIZE: "zero" if every byte there is 0, else "data"
void do_is_zero(const Arguments& a) {
  const File file(a.at(0), O_RDONLY);
  std::vector<char> bytes(static_cast<std::size_t>(number(a.at(2))));
  const ssize_t got = ::pread(file.fd(), bytes.data(), bytes.size(), number(a.at(1)));
  if (got < 0) return print_failure();
  for (const char byte : bytes) {
    if (byte != 0) {
      std::printf("data\n");
      return;
    }
  }
  std::printf("zero\n");
}

void do_seek(const Arguments& a) {  // FILE data|hole|end OFFSET
  const File file(a.at(0), O_RDONLY);
  const int whence = a.at(1) == "data" ? SEEK_DATA : a.at(1) == "hole" ? SEEK_HOLE : SEEK_END;
  print_count(::lseek(file.fd(), number(a.at(2)), whence));
}

void do_device_size(const Arguments& a) {  // FILE: BLKGETSIZE64
  const File file(a.at(0), O_RDONLY);
  std::uint64_t size = 0;
  if (::ioctl(file.fd(), BLKGETSIZE64, &size) < 0) return print_failure();
  std::printf("%" PRIu64 "\n", size);
}

struct Command {
  std::size_t arguments;  // at least
  std::function<void(const Arguments&)> run;
};

const std::map<std::string, Command>& commands() {
  static const std::map<std::string, Command> kCommands = {
      {"open", {2, do_open}},
      {"stat", {1, do_stat}},
      {"setxattr", {3, do_setxattr}},
      {"write", {2, do_write}},
      {"write-each", {0, do_write_each}},
      {"write-bytes", {2, do_write_bytes}},
      {"pwrite", {3, do_pwrite}},
      {"writev", {2, do_writev}},
      {"read", {2, do_read}},
      {"pread", {3, do_pread}},
      {"snapshot", {2, do_snapshot}},
      {"put", {5, do_put}},
      {"get", {5, do_get}},
      {"write-until-error", {3, do_write_until_error}},
      {"check-answered", {3, do_check_answered}},
      {"progress", {1, do_progress}},
      {"weave", {8, do_weave}},
      {"fsync", {1, do_fsync}},
      {"fallocate", {4, do_fallocate}},
      {"is-zero", {3, do_is_zero}},
      {"seek", {3, do_seek}},
      {"device-size", {1, do_device_size}},
      {"mkdir", {1, [](const Arguments& a) { print_outcome(::mkdir(a[0].c_str(), 0755)); }}},
      {"rmdir", {1, [](const Arguments& a) { print_outcome(::rmdir(a[0].c_str())); }}},
      {"unlink", {1, [](const Arguments& a) { print_outcome(::unlink(a[0].c_str())); }}},
      {"rename",
       {2, [](const Arguments& a) { print_outcome(::rename(a[0].c_str(), a[1].c_str())); }}},
      {"symlink",
       {2, [](const Arguments& a) { print_outcome(::symlink(a[0].c_str(), a[1].c_str())); }}},
      {"link", {2, [](const Arguments& a) { print_outcome(::link(a[0].c_str(), a[1].c_str())); }}},
      {"truncate",
       {2, [](const Arguments& a) { print_outcome(::truncate(a[0].c_str(), number(a[1]))); }}},
      {"chmod",
       {2,
        [](const Arguments& a) {
          print_outcome(::chmod(a[0].c_str(), static_cast<mode_t>(number(a[1]))));
        }}},
  };
  return kCommands;
}

void on_interrupt(int) {}

}  // namespace

int main(int argc, char** argv) {
  const Arguments all(argv + 1, argv + argc);
  if (all.empty()) usage("no command");
  const auto command = commands().find(all[0]);
  if (command == commands().end()) usage("unknown command " + all[0]);
  const Arguments arguments(all.begin() + 1, all.end());
  if (arguments.size() < command->second.arguments) usage("too few arguments for " + all[0]);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  command->second.run(arguments);
  return 0;
}
