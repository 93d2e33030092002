// SPDX-License-Identifier: Apache-2.0
#include "daemon/mounts.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "daemon/descriptor.hpp"
#include "scratch.hpp"

namespace elevd::daemon {
namespace {

TEST_SUITE("mounts") {
  TEST_CASE("a line of mountinfo is taken apart") {
    const auto mounts = parse_mountinfo(
        "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n");
    REQUIRE(mounts.size() == 1);
    CHECK(mounts[0].id == 36);
    CHECK(mounts[0].parent_id == 35);
    CHECK(mounts[0].device_major == 98);
    CHECK(mounts[0].device_minor == 0);
    CHECK(mounts[0].root == "/mnt1");
    CHECK(mounts[0].mount_point == "/mnt2");
    CHECK(mounts[0].type == "ext3");
    CHECK(mounts[0].source == "/dev/root");
  }

  TEST_CASE("the tags before the dash may be none or many") {
    const auto mounts = parse_mountinfo(
        "1 0 0:1 / /a rw - fuse.elevd elevd rw\n"
        "2 0 0:2 / /b rw shared:1 master:2 propagate_from:3 unbindable - tmpfs none rw\n");
    REQUIRE(mounts.size() == 2);
    CHECK(mounts[0].type == "fuse.elevd");
    CHECK(mounts[1].type == "tmpfs");
  }

  TEST_CASE("escapes in names are undone") {
    struct Row {
      const char* escaped;
      const char* plain;
    };
    for (const Row& row :
         {Row{"/a\\040b", "/a b"}, Row{"/t\\011n\\012", "/t\tn\n"},
          Row{"/back\\134slash", "/back\\slash"}, Row{"/\\043", "/#"}, Row{"\\040", " "},
          Row{"/a\\04", "/a\\04"}, Row{"/a\\", "/a\\"}, Row{"/a\\089", "/a\\089"},
          Row{"/a\\400", "/a\\400"}, Row{"/\\134040", "/\\040"}, Row{"", ""}}) {
      CAPTURE(row.escaped);
      CHECK(unescape_octal(row.escaped) == row.plain);
    }
    const auto mounts =
        parse_mountinfo("1 0 0:1 / /run/my\\040disks/dev/a rw - fuse.elevd a\\040b rw\n");
    REQUIRE(mounts.size() == 1);
    CHECK(mounts[0].mount_point == "/run/my disks/dev/a");
    CHECK(mounts[0].source == "a b");
  }

  TEST_CASE("lines without the format are left out") {
    for (const char* text :
         {"", "\n", "x\n", "1\n", "1 2\n", "a 0 0:1 / /a rw - t s rw\n",
          "1 b 0:1 / /a rw - t s rw\n", "1 0 0 / /a rw - t s rw\n", "1 0 0:x / /a rw - t s rw\n",
          "1 0 0:1 / a rw - t s rw\n", "1 0 0:1 / /a rw t s rw\n", "1 0 0:1 / /a rw -\n",
          "1 0 0:1 / /a rw\n"}) {
      CAPTURE(text);
      CHECK(parse_mountinfo(text).empty());
      const auto with_good_one =
          parse_mountinfo(std::string(text) + "\n9 0 0:1 / /good rw - t s rw");
      REQUIRE(with_good_one.size() == 1);
      CHECK(with_good_one[0].id == 9);
    }
  }

  TEST_CASE("below means inside, not beside and not the same") {
    CHECK(is_below("/run/elevd", "/run/elevd/dev/a"));
    CHECK_FALSE(is_below("/run/elevd", "/run/elevd"));
    CHECK_FALSE(is_below("/run/elevd", "/run/elevd2"));
    CHECK_FALSE(is_below("/run/elevd", "/run"));
    CHECK_FALSE(is_below("/run/elevd", "/run/elevd/"));
    CHECK(is_below("/", "/run"));
    CHECK_FALSE(is_below("/", "/"));
  }

  TEST_CASE("of several mounts at one place the topmost is found") {
    const auto mounts = parse_mountinfo(
        "1 0 0:1 / /a rw - one s rw\n2 1 0:2 / /a rw - two s rw\n3 0 0:3 / /b rw - three s rw\n");
    const Mount* mount = find_mount_at(mounts, "/a");
    REQUIRE(mount != nullptr);
    CHECK(mount->type == "two");
    CHECK(find_mount_at(mounts, "/") == nullptr);
  }

  TEST_CASE("the mounts of this process have a root") {
    const auto mounts = read_mounts();
    REQUIRE(mounts);
    CHECK(find_mount_at(*mounts, "/proc") != nullptr);
  }

  TEST_CASE("unmounting what is no mount is refused") {
    const testing::Scratch scratch;
    CHECK(unmount(scratch.path(), false) == EINVAL);
    CHECK(unmount(scratch.path(), true) == EINVAL);
  }

  TEST_CASE("a mount goes when it is idle, and lazily when it is busy") {
    const testing::Scratch scratch;
    if (mount("elevd-test", scratch.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      MESSAGE("skipped: nothing can be mounted: ", std::string(std::strerror(errno)));
      return;
    }
    CHECK(unmount(scratch.path(), false) == 0);
    REQUIRE(mount("elevd-test", scratch.path().c_str(), "tmpfs", 0, "size=1m") == 0);
    const Descriptor user{open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    REQUIRE(user);
    CHECK(unmount(scratch.path(), false) == EBUSY);
    CHECK(unmount(scratch.path(), true) == 0);
    CHECK(find_mount_at(*read_mounts(), scratch.path()) == nullptr);
  }
}

}  // namespace
}  // namespace elevd::daemon
