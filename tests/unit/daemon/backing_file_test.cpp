// SPDX-License-Identifier: Apache-2.0
// Backings with a path: files, tmpfs, block devices; locks and refusals.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "daemon/backing.hpp"
#include "daemon/backing_place.hpp"
#include "daemon/device_queue.hpp"
#include "scratch.hpp"

namespace elevd::daemon {
namespace {

using testing::AlignedBuffer;
using testing::InChild;
using testing::kMebibyte;
using testing::Scratch;
using namespace std::chrono_literals;

Result<std::unique_ptr<Backing>> open_at(const std::string& path, bool read_only = false) {
  return open_backing({.path = path, .read_only = read_only, .lock_wait = 0ms});
}

bool is_tmpfs(const std::string& path) {
  struct statfs system {};
  return statfs(path.c_str(), &system) == 0 && system.f_type == 0x01021994;
}

// Puts a loop device over a file; none when the machine does not allow it.
class LoopDevice {
 public:
  explicit LoopDevice(const std::string& file, int block = 512) {
    const Descriptor control{open("/dev/loop-control", O_RDWR | O_CLOEXEC)};
    if (!control) return;
    const Descriptor backing{open(file.c_str(), O_RDWR | O_CLOEXEC)};
    for (int attempts = 0; attempts < 20 && backing; ++attempts) {
      const int number = ioctl(control.get(), LOOP_CTL_GET_FREE);
      if (number < 0) return;
      const std::string path = "/dev/loop" + std::to_string(number);
      Descriptor device{open(path.c_str(), O_RDWR | O_CLOEXEC)};
      if (!device) return;
      struct loop_config config {};
      config.fd = static_cast<__u32>(backing.get());
      config.block_size = static_cast<__u32>(block);
      config.info.lo_flags = LO_FLAGS_AUTOCLEAR;  // gone with its last user, whatever happens
      if (ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) {
        device_ = std::move(device);
        path_ = path;
        return;
      }
      if (errno != EBUSY) return;  // else another process was faster
    }
  }
  explicit operator bool() const { return static_cast<bool>(device_); }
  const std::string& path() const { return path_; }

 private:
  Descriptor device_;
  std::string path_;
};

TEST_SUITE("file backing") {
  TEST_CASE("a file with direct I/O is for the ring, with the alignment it needs") {
    const Scratch scratch;
    if (is_tmpfs(scratch.path())) {
      MESSAGE("skipped: ", scratch.path(), " is on tmpfs, set TMPDIR to a disk");
      return;
    }
    const auto file = open_at(scratch.file("disk", kMebibyte + 1000));
    REQUIRE(file);
    const Geometry& geometry = (*file)->geometry();
    CHECK((*file)->kind() == BackingKind::uring);
    CHECK(geometry.bytes == kMebibyte + 1000 - 1000 % geometry.logical_block);
    CHECK(((fcntl((*file)->fd(), F_GETFL) & O_DIRECT) != 0) == geometry.direct);
    CHECK((fcntl((*file)->fd(), F_GETFD) & FD_CLOEXEC) != 0);
    if (geometry.direct) {
      CHECK(geometry.direct_alignment >= 512);
      CHECK(geometry.logical_block >= geometry.direct_alignment);
      CHECK(geometry.description == scratch / "disk" + " (file, O_DIRECT)");
    }
    CHECK(geometry.physical_block >= geometry.logical_block);
    CHECK(geometry.discard);
    CHECK(geometry.discard_granularity >= 512);
    CHECK(geometry.discard_fallocate_mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE));
    CHECK((*file)->direct_read_view(0, 512) == nullptr);
  }

  TEST_CASE("data, holes and zeroes, on disk and on tmpfs") {
    for (const char* base : {"", "/dev/shm"}) {
      if (*base != '\0' && !is_tmpfs(base)) {
        MESSAGE("skipped: ", base, " is not tmpfs");
        continue;
      }
      CAPTURE(base);
      const Scratch scratch = *base == '\0' ? Scratch() : Scratch(base);
      const auto opened = open_at(scratch.file("disk", kMebibyte));
      REQUIRE(opened);
      Backing& file = **opened;
      AlignedBuffer out(65536, 11);
      AlignedBuffer in(65536);
      CHECK(file.seek(0, SEEK_DATA) == -ENXIO);
      CHECK(file.seek(4096, SEEK_HOLE) == 4096);
      CHECK(file.write(131072, {out.data(), out.size()}) == 65536);
      CHECK(file.flush() == 0);
      CHECK(file.read(131072, {in.data(), in.size()}) == 65536);
      CHECK(in == out);
      CHECK(file.seek(0, SEEK_DATA) == 131072);
      CHECK(file.seek(131072, SEEK_HOLE) == 131072 + 65536);
      CHECK(file.seek(131072 + 65536, SEEK_DATA) == -ENXIO);
      CHECK(file.discard(131072, 16384) == 0);
      CHECK(file.write_zeroes(131072 + 16384, 16384) == 0);
      CHECK(file.discard(0, 0) == 0);
      CHECK(file.write_zeroes(0, 0) == 0);
      std::memset(out.data(), 0, 32768);
      CHECK(file.read(131072, {in.data(), in.size()}) == 65536);
      CHECK(in == out);
      CHECK(file.seek(kMebibyte, SEEK_DATA) == -ENXIO);
      CHECK(file.seek(0, SEEK_CUR) == -EINVAL);
      CHECK(file.flush_all() == 0);
      struct stat status {};
      REQUIRE(fstat(file.fd(), &status) == 0);
      CHECK(static_cast<std::uint64_t>(status.st_size) == kMebibyte);
    }
  }

  TEST_CASE("seek ends at the disk's end, not at the file's") {
    const Scratch scratch;
    const std::string path = scratch.file("disk", 8192 + 100);
    const Descriptor writer{open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    REQUIRE(pwrite(writer.get(), "x", 1, 8192 + 50) == 1);
    const auto file = open_at(path);
    REQUIRE(file);
    REQUIRE((*file)->geometry().bytes == 8192);
    CHECK((*file)->seek(0, SEEK_DATA) == -ENXIO);
    REQUIRE(pwrite(writer.get(), "x", 1, 8191) == 1);
    CHECK((*file)->seek(0, SEEK_DATA) >= 0);
    CHECK((*file)->seek(8191, SEEK_HOLE) == 8192);
  }

  TEST_CASE("a file on tmpfs is served inline, at any alignment") {
    if (!is_tmpfs("/dev/shm")) {
      MESSAGE("skipped: /dev/shm is not tmpfs");
      return;
    }
    const Scratch scratch("/dev/shm");
    const auto file = open_at(scratch.file("disk", kMebibyte));
    REQUIRE(file);
    CHECK((*file)->kind() == BackingKind::inline_);
    CHECK((*file)->geometry().direct_alignment == 1);
    CHECK((*file)->geometry().logical_block == 512);
    CHECK((*file)->geometry().description == scratch / "disk" + " (file on tmpfs)");
    AlignedBuffer out(777, 11);
    AlignedBuffer in(777);
    CHECK((*file)->write(13, {out.data(), out.size()}) == 777);
    CHECK((*file)->read(13, {in.data(), in.size()}) == 777);
    CHECK(in == out);
  }

  TEST_CASE("a larger logical block is taken, a smaller than the alignment is not") {
    const Scratch scratch;
    const std::string path = scratch.file("disk", kMebibyte);
    const auto file = open_backing({.path = path, .logical_block_size = 4096});
    REQUIRE(file);
    CHECK((*file)->geometry().logical_block == 4096);
    CHECK((*file)->geometry().physical_block >= 4096);
    CHECK((*file)->geometry().io_min >= 4096);
  }

  TEST_CASE("a read-only backing opens what cannot be written, and changes nothing") {
    const Scratch scratch;
    const std::string path = scratch.file("disk", kMebibyte);
    REQUIRE(chmod(path.c_str(), 0400) == 0);
    const auto file = open_at(path, true);
    REQUIRE(file);
    AlignedBuffer buffer(4096, 1);
    CHECK((fcntl((*file)->fd(), F_GETFL) & O_ACCMODE) == O_RDONLY);
    CHECK((*file)->write(0, {buffer.data(), buffer.size()}) == -EROFS);
    CHECK((*file)->discard(0, 4096) == -EROFS);
    CHECK((*file)->write_zeroes(0, 4096) == -EROFS);
    CHECK((*file)->read(0, {buffer.data(), buffer.size()}) == 4096);
    CHECK(buffer.all_zero());
    CHECK((*file)->flush_all() == 0);
  }
}

TEST_SUITE("backing lock") {
  TEST_CASE("a second user is refused, in this process and in another") {
    const Scratch scratch;
    const std::string path = scratch.file("disk", kMebibyte);
    auto first = open_at(path);
    REQUIRE(first);
    const auto second = open_at(path);
    REQUIRE_FALSE(second);
    CHECK(second.error().code == EBUSY);
    CHECK(second.error().exit_status == kExitBacking);
    CHECK(second.error().what == path + ": in use by another process, which holds a lock on it");
    CHECK_FALSE(open_at(path, true));
    const InChild other([&path] { return !open_at(path); });
    CHECK(other.worked());
  }

  TEST_CASE("readers share, and keep a writer out") {
    const Scratch scratch;
    const std::string path = scratch.file("disk", kMebibyte);
    const auto first = open_at(path, true);
    REQUIRE(first);
    CHECK(open_at(path, true));
    CHECK_FALSE(open_at(path));
  }

  TEST_CASE("the lock of a killed process is waited for") {
    const Scratch scratch;
    const std::string path = scratch.file("disk", kMebibyte);
    std::unique_ptr<Backing> kept;
    InChild other([&] {
      auto opened = open_at(path);
      if (opened) kept = std::move(*opened);
      return opened.has_value();
    });
    REQUIRE(other.worked());
    CHECK_FALSE(open_at(path));
    other.kill();
    CHECK(open_backing({.path = path}));
  }
}

TEST_SUITE("backing refusals") {
  TEST_CASE("what is no backing is refused in one clear line") {
    const Scratch scratch;
    REQUIRE(mkdir((scratch / "dir").c_str(), 0755) == 0);
    REQUIRE(mkfifo((scratch / "pipe").c_str(), 0644) == 0);
    scratch.file("small", 511);
    scratch.file("empty", 0);
    REQUIRE(symlink("missing", (scratch / "dangling").c_str()) == 0);
    REQUIRE(symlink("circle", (scratch / "circle").c_str()) == 0);
    const std::string missing = ": No such file or directory";
    const std::string wanted = ", expected a file or a block device";
    struct Row {
      std::string path;
      int code;
      std::string message;
    };
    const Row rows[] = {
        {scratch / "missing", ENOENT, scratch / "missing" + missing + wanted},
        {scratch / "dangling", ENOENT, scratch / "dangling" + missing + wanted},
        {scratch / "no/where", ENOENT, scratch / "no/where: " + (scratch / "no") + missing},
        {scratch / "circle", ELOOP, scratch / "circle" + ": Too many levels of symbolic links"},
        {scratch / "dir", EISDIR, scratch / "dir" + ": is a directory" + wanted},
        {scratch / "dir/", EISDIR, scratch / "dir/" + ": is a directory" + wanted},
        {scratch / "dir/..", EISDIR, scratch / "dir/.." + ": is a directory" + wanted},
        {scratch / "pipe", EINVAL, scratch / "pipe" + ": is a pipe" + wanted},
        {"/dev/null", EINVAL, "/dev/null: is a character device" + wanted},
        {"", ENOENT, "backing: its path is empty, expected a file"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.path);
      const auto backing = open_at(row.path);
      REQUIRE_FALSE(backing);
      CHECK(backing.error().what == row.message);
      CHECK(backing.error().code == row.code);
      CHECK(backing.error().exit_status == kExitBacking);
    }
    for (const char* name : {"small", "empty"}) {
      CAPTURE(name);
      const auto backing = open_at(scratch / name);
      REQUIRE_FALSE(backing);
      CHECK(backing.error().what.find("expected at least one block of") != std::string::npos);
    }
  }

  TEST_CASE("a file inside DIR is refused, however it is named") {
    const Scratch scratch;
    REQUIRE(mkdir((scratch / "elevd").c_str(), 0755) == 0);
    REQUIRE(mkdir((scratch / "elevd/dev").c_str(), 0755) == 0);
    scratch.file("elevd/dev/disk", kMebibyte);
    scratch.file("elevd2", kMebibyte);
    REQUIRE(symlink("elevd/dev/disk", (scratch / "link").c_str()) == 0);
    REQUIRE(symlink((scratch / "link").c_str(), (scratch / "link2").c_str()) == 0);
    REQUIRE(symlink("elevd", (scratch / "alias").c_str()) == 0);
    for (const char* directory : {"/elevd", "/alias", "/elevd/", "/elevd/dev/.."}) {
      for (const char* name : {"elevd/dev/disk", "link", "link2", "alias/dev/disk",
                               "elevd/../elevd/dev/disk", "elevd/dev/not-there"}) {
        CAPTURE(directory);
        CAPTURE(name);
        const auto backing = open_backing(
            {.path = scratch / name, .directory = scratch.path() + directory, .lock_wait = 0ms});
        REQUIRE_FALSE(backing);
        CHECK(backing.error().what == scratch / name + ": lies inside " + (scratch / "elevd") +
                                          ", which elevd serves itself, expected a file outside "
                                          "it");
      }
      CHECK(open_backing({.path = scratch / "elevd2", .directory = scratch.path() + directory}));
    }
    CHECK(open_backing({.path = scratch / "elevd2", .directory = scratch / "not/made/yet"}));
  }
}

TEST_SUITE("block device backing") {
  TEST_CASE("a loop device is taken as a whole, with its own limits") {
    const Scratch scratch;
    const LoopDevice loop(scratch.file("image", 4 * kMebibyte + 512));
    if (!loop) {
      MESSAGE("skipped: no loop device can be made: ", std::string(std::strerror(errno)));
      return;
    }
    auto opened = open_at(loop.path());
    REQUIRE(opened);
    Backing& device = **opened;
    const Geometry& geometry = device.geometry();
    CHECK(device.kind() == BackingKind::uring);
    CHECK(geometry.is_block_device);
    CHECK(geometry.direct);
    CHECK(geometry.bytes == 4 * kMebibyte + 512);
    CHECK(geometry.logical_block == 512);
    CHECK(geometry.direct_alignment == 512);
    CHECK(geometry.description == loop.path() + " (block device, O_DIRECT)");
    AlignedBuffer out(65536, 4);
    AlignedBuffer in(65536);
    CHECK(device.write(65536, {out.data(), out.size()}) == 65536);
    CHECK(device.flush() == 0);
    if (geometry.discard) CHECK(device.discard(65536, 4096) == 0);
    CHECK(device.write_zeroes(65536, 8192) == 0);
    CHECK(device.read(65536, {in.data(), in.size()}) == 65536);
    std::memset(out.data(), 0, 8192);
    CHECK(in == out);
    CHECK(device.seek(1000, SEEK_DATA) == 1000);
    CHECK(device.seek(1000, SEEK_HOLE) == static_cast<off_t>(geometry.bytes));

    const auto second = open_at(loop.path());
    REQUIRE_FALSE(second);
    CHECK(second.error().code == EBUSY);
    opened->reset();
    CHECK(open_at(loop.path()));
    CHECK_FALSE(open_backing({.path = loop.path(), .logical_block_size = 256}));
  }

  TEST_CASE("blocks of 4096 cannot be made smaller") {
    const Scratch scratch;
    const LoopDevice loop(scratch.file("image", 4 * kMebibyte), 4096);
    if (!loop) {
      MESSAGE("skipped: no loop device can be made: ", std::string(std::strerror(errno)));
      return;
    }
    const auto small = open_backing({.path = loop.path(), .logical_block_size = 512});
    REQUIRE_FALSE(small);
    CHECK(small.error().what == loop.path() +
                                    ": logical_block_size is 512, expected at least "
                                    "4096, which this backing needs");
    const auto device = open_at(loop.path());
    REQUIRE(device);
    CHECK((*device)->geometry().logical_block == 4096);
    CHECK((*device)->geometry().physical_block == 4096);
  }

  TEST_CASE("a mounted device is refused at once, and says where") {
    const Scratch scratch;
    const std::string image = scratch.file("image", 16 * kMebibyte);
    const std::string point = scratch / "mnt";
    REQUIRE(mkdir(point.c_str(), 0755) == 0);
    const std::string format = "mkfs.ext4 -q -F " + image + " >/dev/null 2>&1";
    const bool formatted = std::system(format.c_str()) == 0;
    const LoopDevice loop(image);
    if (!formatted || !loop || mount(loop.path().c_str(), point.c_str(), "ext4", 0, "") != 0) {
      MESSAGE("skipped: no file system on a loop device can be mounted");
      return;
    }
    const auto device = open_backing({.path = loop.path()});
    CHECK(umount2(point.c_str(), MNT_DETACH) == 0);
    REQUIRE_FALSE(device);
    CHECK(device.error().what ==
          loop.path() + ": is mounted at " + point + ", expected a device that nobody uses");
  }
}

TEST_SUITE("device queue") {
  TEST_CASE("limits are read, for a partition from its disk") {
    const Scratch scratch;
    for (const char* made :
         {"devices", "devices/sda", "devices/sda/queue", "devices/sda/sda1", "block"}) {
      REQUIRE(mkdir((scratch / made).c_str(), 0755) == 0);
    }
    REQUIRE(symlink("../devices/sda", (scratch / "block/8:0").c_str()) == 0);
    REQUIRE(symlink("../devices/sda/sda1", (scratch / "block/8:1").c_str()) == 0);
    const auto put = [&scratch](const char* name, const char* text) {
      const std::string path = scratch / "devices/sda/queue/" + name;
      const Descriptor file{open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)};
      const auto length = static_cast<ssize_t>(std::strlen(text));
      REQUIRE(write(file.get(), text, std::strlen(text)) == length);
    };
    put("physical_block_size", "4096\n");
    put("minimum_io_size", "8192\n");
    put("optimal_io_size", "65536\n");
    put("rotational", "1\n");
    put("discard_granularity", "512\n");
    put("discard_max_bytes", "4294966784\n");
    put("write_zeroes_max_bytes", "not a number\n");
    for (const unsigned minor_number : {0U, 1U}) {
      const DeviceQueue queue = read_device_queue(8, minor_number, scratch / "block");
      CHECK(queue.found);
      CHECK(queue.physical_block == 4096);
      CHECK(queue.io_min == 8192);
      CHECK(queue.io_opt == 65536);
      CHECK(queue.rotational);
      CHECK(queue.discard_granularity == 512);
      CHECK(queue.discard_max_bytes == 4294966784);
      CHECK(queue.write_zeroes_max_bytes == 0);
    }
    CHECK_FALSE(read_device_queue(8, 2, scratch / "block").found);
  }
}

}  // namespace
}  // namespace elevd::daemon
