// SPDX-License-Identifier: Apache-2.0
#include "daemon/directory.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "daemon/descriptor.hpp"
#include "scratch.hpp"

namespace elevd::daemon {
namespace {

using testing::exists;
using testing::InChild;
using testing::Scratch;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return status.st_mode;
}

// Mounts, as a daemon that was killed leaves it: a connection of type fuse.elevd without a server.
bool mount_dead(const std::string& point) {
  const Descriptor device{open("/dev/fuse", O_RDWR | O_CLOEXEC)};
  if (!device) return false;
  const std::string root = S_ISDIR(mode_of(point)) ? "40000" : "100000";
  const std::string options =
      "fd=" + std::to_string(device.get()) + ",rootmode=" + root + ",user_id=0,group_id=0";
  return mount("elevd", point.c_str(), "fuse.elevd", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
}

// Takes `path` in a child, with a disk file, and kills the child. The directory is as after kill
// -9.
void leave_behind(const std::string& path, const std::string& disk) {
  std::optional<Directory> kept;
  InChild child([&] {
    auto taken = Directory::take(path);
    if (!taken || !taken->make_disk_file(disk)) return false;
    kept.emplace(std::move(*taken));
    return true;
  });
  REQUIRE(child.worked());
  child.kill();
}

TEST_SUITE("directory") {
  TEST_CASE("it is made with all that is missing, and goes without a trace") {
    const Scratch scratch;
    const std::string path = scratch / "a/b/elevd";
    {
      auto directory = Directory::take(path + "/");
      REQUIRE(directory);
      CHECK(directory->path() == path);
      CHECK(S_ISDIR(mode_of(path + "/dev")));
      CHECK(S_ISDIR(mode_of(directory->control_path())));
      CHECK(directory->control_path() == path + "/sys");
      const auto file = directory->make_disk_file("disk0");
      REQUIRE(file);
      CHECK(*file == path + "/dev/disk0");
      CHECK(mode_of(*file) == (S_IFREG | 0600));
      CHECK(directory->make_disk_file("disk0"));
    }
    CHECK_FALSE(exists(scratch / "a"));
  }

  TEST_CASE("what was there before stays, what is put in stays") {
    const Scratch scratch;
    const std::string path = scratch / "elevd";
    REQUIRE(mkdir(path.c_str(), 0755) == 0);
    REQUIRE(mkdir((path + "/dev").c_str(), 0755) == 0);
    scratch.file("elevd/dev/mine", 0);
    auto directory = Directory::take(path);
    REQUIRE(directory);
    CHECK(directory->make_disk_file("mine"));
    REQUIRE(directory->make_disk_file("theirs"));
    REQUIRE(directory->make_disk_file("gone"));
    REQUIRE(truncate((path + "/dev/theirs").c_str(), 1) == 0);
    directory->remove_disk_file("gone");
    directory->remove_disk_file("mine");
    CHECK_FALSE(exists(path + "/dev/gone"));
    directory->remove_all_made();
    CHECK(exists(path + "/dev/mine"));
    CHECK(exists(path + "/dev/theirs"));
    CHECK_FALSE(exists(path + "/sys"));
    CHECK_FALSE(exists(path + "/.lock"));
    directory->remove_all_made();
    CHECK(exists(path));
  }

  TEST_CASE("foreign things are neither hidden nor removed") {
    struct Row {
      const char* what;
      const char* directory;  // made in DIR
      const char* file;       // made in DIR, one byte
      const char* link;       // made in DIR
      int code;
    };
    for (const Row& row : {Row{"sys is not empty", "sys", "sys/block", nullptr, ENOTEMPTY},
                           Row{"sys is a file", nullptr, "sys", nullptr, ENOTDIR},
                           Row{"dev is a file", nullptr, "dev", nullptr, ENOTDIR},
                           Row{"dev is a link", nullptr, nullptr, "dev", ENOTDIR},
                           Row{"lock is a link", nullptr, nullptr, ".lock", ELOOP}}) {
      CAPTURE(row.what);
      const Scratch scratch;
      if (row.directory != nullptr) REQUIRE(mkdir((scratch / row.directory).c_str(), 0755) == 0);
      if (row.file != nullptr) scratch.file(row.file, 1);
      if (row.link != nullptr) REQUIRE(symlink("/", (scratch / row.link).c_str()) == 0);
      const auto directory = Directory::take(scratch.path());
      REQUIRE_FALSE(directory);
      CHECK(directory.error().code == row.code);
      CHECK(directory.error().exit_status == kExitDirectory);
      if (row.file != nullptr) CHECK(exists(scratch / row.file));
      if (row.link != nullptr) CHECK(exists(scratch / row.link));
      // Nothing of a failed attempt is left.
      if (row.link == nullptr || std::string(row.link) != ".lock") {
        CHECK_FALSE(exists(scratch / ".lock"));
      }
      CHECK(exists(scratch / "dev") == (row.what[0] == 'd'));
    }
  }

  TEST_CASE("a disk file is not put over something else") {
    const Scratch scratch;
    auto directory = Directory::take(scratch.path());
    REQUIRE(directory);
    scratch.file("dev/full", 1);
    REQUIRE(mkdir((scratch / "dev/tree").c_str(), 0755) == 0);
    REQUIRE(symlink("full", (scratch / "dev/link").c_str()) == 0);
    for (const char* name : {"full", "tree", "link"}) {
      CAPTURE(name);
      const auto file = directory->make_disk_file(name);
      REQUIRE_FALSE(file);
      CHECK(file.error().code == EEXIST);
      CHECK(file.error().exit_status == kExitDirectory);
      directory->remove_disk_file(name);
    }
    directory->remove_all_made();
    for (const char* name : {"full", "tree", "link"}) CHECK(exists(scratch / "dev/" + name));
  }

  TEST_CASE("unusable places are refused") {
    const Scratch scratch;
    scratch.file("file", 1);
    CHECK_FALSE(Directory::take(""));
    CHECK_FALSE(Directory::take("/"));
    CHECK_FALSE(exists("/.lock"));
    const auto file = Directory::take(scratch / "file");
    REQUIRE_FALSE(file);
    CHECK(file.error().code == ENOTDIR);
    const auto below = Directory::take(scratch / "file/elevd");
    REQUIRE_FALSE(below);
    CHECK(below.error().code == ENOTDIR);
    CHECK(below.error().what == scratch / "file/elevd" + ": cannot be made: Not a directory");
  }

  TEST_CASE("a second taker is told who has it, and leaves everything alone") {
    const Scratch scratch;
    const std::string path = scratch / "elevd";
    std::optional<Directory> kept;
    InChild child([&] {
      auto taken = Directory::take(path);
      if (!taken || !taken->make_disk_file("disk0")) return false;
      kept.emplace(std::move(*taken));
      return true;
    });
    REQUIRE(child.worked());
    const auto second = Directory::take(path);
    REQUIRE_FALSE(second);
    CHECK(second.error().code == EBUSY);
    CHECK(second.error().exit_status == kExitDirectory);
    CHECK(second.error().what ==
          path + ": in use by another elevd (pid " + std::to_string(child.pid()) + ")");
    CHECK(exists(path + "/dev/disk0"));
    CHECK(exists(path + "/.lock"));
  }

  TEST_CASE("after a kill the next one takes over, and in the end nothing is left") {
    const Scratch scratch;
    const std::string path = scratch / "run/elevd";
    leave_behind(path, "old");
    REQUIRE(exists(path + "/dev/old"));
    {
      auto directory = Directory::take(path);
      REQUIRE(directory);
      CHECK_FALSE(exists(path + "/dev/old"));
      REQUIRE(directory->make_disk_file("new"));
    }
    CHECK_FALSE(exists(scratch / "run"));
  }

  TEST_CASE("a left-over file that somebody used since stays") {
    const Scratch scratch;
    leave_behind(scratch.path(), "old");
    REQUIRE(truncate((scratch / "dev/old").c_str(), 100) == 0);
    scratch.file("dev/foreign", 0);
    {
      auto directory = Directory::take(scratch.path());
      REQUIRE(directory);
    }
    CHECK(exists(scratch / "dev/old"));
    CHECK(exists(scratch / "dev/foreign"));
  }

  TEST_CASE("dead mounts are cleared, those of others stay") {
    const Scratch scratch;
    const std::string path = scratch / "with space";
    leave_behind(path, "disk0");
    REQUIRE(mkdir((path + "/other").c_str(), 0755) == 0);
    if (geteuid() != 0 || !mount_dead(path + "/sys")) {
      MESSAGE("skipped: nothing can be mounted: ", std::string(std::strerror(errno)));
      return;
    }
    CHECK(mount_dead(path + "/dev/disk0"));
    CHECK(mount("elevd-test", (path + "/other").c_str(), "tmpfs", 0, "size=1m") == 0);
    {
      auto directory = Directory::take(path);
      REQUIRE(directory);
      const auto mounts = read_mounts();
      REQUIRE(mounts);
      CHECK(find_mount_at(*mounts, path + "/sys") == nullptr);
      CHECK(find_mount_at(*mounts, path + "/dev/disk0") == nullptr);
      CHECK(find_mount_at(*mounts, path + "/other") != nullptr);
      CHECK_FALSE(exists(path + "/dev/disk0"));
    }
    CHECK(unmount(path + "/other", true) == 0);
    CHECK_FALSE(exists(path + "/sys"));
    CHECK(exists(path + "/other"));
  }

  TEST_CASE("a foreign mount on DIR/sys or on a disk file is not covered") {
    const Scratch scratch;
    REQUIRE(mkdir((scratch / "sys").c_str(), 0755) == 0);
    if (mount("elevd-test", (scratch / "sys").c_str(), "tmpfs", 0, "size=1m") != 0) {
      MESSAGE("skipped: nothing can be mounted: ", std::string(std::strerror(errno)));
      return;
    }
    const auto directory = Directory::take(scratch.path());
    CHECK(unmount(scratch / "sys", true) == 0);
    REQUIRE_FALSE(directory);
    CHECK(directory.error().code == EBUSY);
    CHECK(directory.error().what == scratch / "sys" +
                                        ": a file system of type tmpfs is mounted "
                                        "there, expected a directory of elevd's "
                                        "own");
  }

  TEST_CASE("what a mount still covers is remembered for the next one") {
    const Scratch scratch;
    const std::string path = scratch / "elevd";
    auto directory = Directory::take(path);
    REQUIRE(directory);
    REQUIRE(directory->make_disk_file("disk0"));
    if (geteuid() != 0 || !mount_dead(path + "/dev/disk0")) {
      MESSAGE("skipped: nothing can be mounted: ", std::string(std::strerror(errno)));
      return;
    }
    CHECK_FALSE(directory->make_disk_file("disk0"));
    directory->remove_disk_file("disk0");
    directory->remove_all_made();
    {
      auto next = Directory::take(path);
      REQUIRE(next);
    }
    CHECK_FALSE(exists(path));
  }
}

TEST_SUITE("lock record") {
  TEST_CASE("it reads as it was written") {
    const LockRecord record{123, {"/run/elevd", "/run/elevd/dev", "/run/elevd/dev/a b"}};
    const std::string text = format_lock_record(record);
    CHECK(text == "123\nmade /run/elevd\nmade /run/elevd/dev\nmade /run/elevd/dev/a b\n");
    const LockRecord again = parse_lock_record(text);
    CHECK(again.pid == 123);
    CHECK(again.made == record.made);
  }

  TEST_CASE("rubbish in it is left out") {
    for (const char* text : {"", "\n", "x\n", "-1\n", "0\n", "12x\n", "99999999999999\n"}) {
      CAPTURE(text);
      const LockRecord record = parse_lock_record(std::string(text) + "made \nmade a\nmake /b\n");
      CHECK(record.pid == 0);
      CHECK(record.made.empty());
    }
  }

  TEST_CASE("it cannot make elevd remove something outside DIR") {
    const Scratch scratch;
    REQUIRE(mkdir((scratch / "elevd").c_str(), 0755) == 0);
    REQUIRE(mkdir((scratch / "bystander").c_str(), 0755) == 0);
    const std::string text =
        "1\nmade " + (scratch / "bystander") + "\nmade " + (scratch / "elevd/../bystander") + "\n";
    const std::string path = scratch / "elevd/.lock";
    {
      const Descriptor file{open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)};
      const auto length = static_cast<ssize_t>(text.size());
      REQUIRE(write(file.get(), text.data(), text.size()) == length);
    }
    {
      const auto directory = Directory::take(scratch / "elevd");
      REQUIRE(directory);
    }
    CHECK(exists(scratch / "bystander"));
  }
}

}  // namespace
}  // namespace elevd::daemon
