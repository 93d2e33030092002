// SPDX-License-Identifier: Apache-2.0
// ram:SIZE and null:SIZE.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "daemon/backing.hpp"
#include "scratch.hpp"

namespace elevd::daemon {
namespace {

using testing::AlignedBuffer;
using testing::kMebibyte;

std::unique_ptr<Backing> open_good(BackingSource source, std::uint64_t bytes,
                                   bool read_only = false) {
  auto backing = open_backing({.source = source, .bytes = bytes, .read_only = read_only});
  REQUIRE(backing);
  return std::move(*backing);
}

std::uint64_t memory_of(const Backing& backing) {
  struct stat status {};
  REQUIRE(fstat(backing.fd(), &status) == 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

TEST_SUITE("ram backing") {
  TEST_CASE("it is served inline and has the blocks of a plain disk") {
    const auto ram = open_good(BackingSource::ram, kMebibyte);
    CHECK(ram->kind() == BackingKind::inline_);
    const Geometry& geometry = ram->geometry();
    CHECK(geometry.bytes == kMebibyte);
    CHECK(geometry.logical_block == 512);
    CHECK(geometry.physical_block == 512);
    CHECK(geometry.io_min == 512);
    CHECK(geometry.direct_alignment == 1);
    CHECK(geometry.discard_max_bytes == 4294966784);
    CHECK(geometry.discard_granularity == 4096);
    CHECK_FALSE(geometry.rotational);
    CHECK_FALSE(geometry.is_block_device);
    CHECK(geometry.description == "ram:1048576");
  }

  TEST_CASE("what was written is read, at any offset and length") {
    const auto ram = open_good(BackingSource::ram, kMebibyte);
    AlignedBuffer out(10001, 7);
    AlignedBuffer in(10001);
    CHECK(ram->write(4095, {out.data(), out.size()}) == 10001);
    CHECK(ram->read(4095, {in.data(), in.size()}) == 10001);
    CHECK(in == out);
    CHECK(ram->read(4094, {in.data(), 1}) == 1);
    CHECK(in.data()[0] == std::byte{0});
    CHECK(ram->write(kMebibyte - 1, {out.data(), 1}) == 1);
    CHECK(ram->read(kMebibyte, {in.data(), 0}) == 0);
    CHECK(ram->flush() == 0);
    CHECK(ram->flush_all() == 0);
  }

  TEST_CASE("the view shows the stored bytes and follows writes") {
    const auto ram = open_good(BackingSource::ram, kMebibyte);
    const std::byte* view = ram->direct_read_view(512, 1024);
    REQUIRE(view != nullptr);
    AlignedBuffer out(1024, 3);
    REQUIRE(ram->write(512, {out.data(), out.size()}) == 1024);
    CHECK(std::equal(out.data(), out.data() + 1024, view));
  }

  TEST_CASE("discard and write zeroes give zeroes and free whole pages") {
    const auto ram = open_good(BackingSource::ram, kMebibyte);
    AlignedBuffer out(kMebibyte, 5);
    AlignedBuffer in(kMebibyte);
    REQUIRE(ram->write(0, {out.data(), out.size()}) == static_cast<ssize_t>(kMebibyte));
    CHECK(memory_of(*ram) == kMebibyte);
    CHECK(ram->discard(4096, 8192) == 0);
    CHECK(memory_of(*ram) == kMebibyte - 8192);
    CHECK(ram->write_zeroes(100, 300) == 0);
    CHECK(ram->discard(0, 0) == 0);
    REQUIRE(ram->read(0, {in.data(), in.size()}) == static_cast<ssize_t>(kMebibyte));
    std::fill(out.data() + 4096, out.data() + 4096 + 8192, std::byte{0});
    std::fill(out.data() + 100, out.data() + 400, std::byte{0});
    CHECK(in == out);
  }

  TEST_CASE("seek knows what was written") {
    const auto ram = open_good(BackingSource::ram, kMebibyte);
    AlignedBuffer out(4096, 5);
    CHECK(ram->seek(0, SEEK_DATA) == -ENXIO);
    CHECK(ram->seek(0, SEEK_HOLE) == 0);
    REQUIRE(ram->write(65536, {out.data(), out.size()}) == 4096);
    CHECK(ram->seek(0, SEEK_DATA) == 65536);
    CHECK(ram->seek(65536, SEEK_HOLE) == 65536 + 4096);
    CHECK(ram->seek(kMebibyte, SEEK_HOLE) == -ENXIO);
    CHECK(ram->seek(0, SEEK_SET) == -EINVAL);
  }

  TEST_CASE("nobody can resize the memory") {
    const auto ram = open_good(BackingSource::ram, kMebibyte);
    CHECK(ftruncate(ram->fd(), 4096) == -1);
    CHECK(ftruncate(ram->fd(), 2 * kMebibyte) == -1);
    CHECK(fcntl(ram->fd(), F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
  }

  TEST_CASE("read-only memory takes no change") {
    const auto ram = open_good(BackingSource::ram, kMebibyte, true);
    AlignedBuffer out(512, 5);
    CHECK(ram->write(0, {out.data(), out.size()}) == -EROFS);
    CHECK(ram->discard(0, 512) == -EROFS);
    CHECK(ram->write_zeroes(0, 512) == -EROFS);
    CHECK(ram->read(0, {out.data(), out.size()}) == 512);
    CHECK(out.all_zero());
  }

  TEST_CASE("sizes and blocks: what is rounded and what is refused") {
    struct Row {
      std::uint64_t bytes;
      unsigned block;
      std::uint64_t expected_bytes;  // 0: refused
      const char* message;
    };
    for (const Row& row : {
             Row{5000, 0, 4608, ""},
             Row{5000, 4096, 4096, ""},
             Row{512, 512, 512, ""},
             Row{511, 0, 0, "ram:511: its size is 511 bytes, expected at least one block of 512"},
             Row{0, 0, 0, "ram:0: its size is 0 bytes, expected at least one block of 512"},
             Row{4095, 4096, 0,
                 "ram:4095: its size is 4095 bytes, expected at least one block of 4096"},
             Row{8192, 256, 0,
                 "ram:8192: logical_block_size is 256, expected 512, 1024, 2048 or 4096"},
             Row{8192, 1000, 0,
                 "ram:8192: logical_block_size is 1000, expected 512, 1024, 2048 or 4096"},
             Row{8192, 8192, 0,
                 "ram:8192: logical_block_size is 8192, expected 512, 1024, 2048 or 4096"},
             Row{~std::uint64_t{0}, 0, 0,
                 "ram:18446744073709551615: the size is too large, expected at most "
                 "9223372036854775807"},
         }) {
      CAPTURE(row.bytes);
      CAPTURE(row.block);
      const auto backing = open_backing(
          {.source = BackingSource::ram, .bytes = row.bytes, .logical_block_size = row.block});
      REQUIRE(backing.has_value() == (row.expected_bytes != 0));
      if (backing) {
        CHECK((*backing)->geometry().bytes == row.expected_bytes);
      } else {
        CHECK(backing.error().what == row.message);
        CHECK(backing.error().code == EINVAL);
        CHECK(backing.error().exit_status == kExitBacking);
      }
    }
  }
}

TEST_SUITE("null backing") {
  TEST_CASE("everything succeeds and reads as zeroes") {
    const auto null = open_good(BackingSource::null, kMebibyte << 30);
    CHECK(null->kind() == BackingKind::inline_);
    CHECK(null->fd() == -1);
    AlignedBuffer buffer(8192, 9);
    CHECK(null->write(kMebibyte << 20, {buffer.data(), buffer.size()}) == 8192);
    CHECK(null->read(kMebibyte << 20, {buffer.data(), buffer.size()}) == 8192);
    CHECK(buffer.all_zero());
    CHECK(null->discard(0, kMebibyte) == 0);
    CHECK(null->write_zeroes(0, kMebibyte) == 0);
    CHECK(null->flush() == 0);
    CHECK(null->seek(0, SEEK_DATA) == -ENXIO);
    CHECK(null->seek(77, SEEK_HOLE) == 77);
    CHECK(null->seek(0, SEEK_END) == -EINVAL);
  }

  TEST_CASE("the view is zeroes, as long as the zero area") {
    const auto null = open_good(BackingSource::null, 4 * kMebibyte);
    const std::byte* view = null->direct_read_view(kMebibyte, kMebibyte);
    REQUIRE(view != nullptr);
    CHECK(std::all_of(view, view + kMebibyte, [](std::byte one) { return one == std::byte{0}; }));
    CHECK(null->direct_read_view(0, kMebibyte + 1) == nullptr);
  }

  TEST_CASE("a read-only one takes no change") {
    const auto null = open_good(BackingSource::null, kMebibyte, true);
    AlignedBuffer buffer(512, 9);
    CHECK(null->write(0, {buffer.data(), buffer.size()}) == -EROFS);
    CHECK(null->discard(0, 512) == -EROFS);
  }
}

}  // namespace
}  // namespace elevd::daemon
