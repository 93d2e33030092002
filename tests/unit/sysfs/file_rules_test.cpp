// SPDX-License-Identifier: Apache-2.0
#include "sysfs/file_rules.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <ostream>
#include <string>

namespace elevd::sysfs {
namespace {

using namespace std::string_view_literals;

TEST_SUITE("file rules") {
  TEST_CASE("a write passes its bytes on and counts them") {
    const StoreInput input = store_input("64\n");
    CHECK(input.text == "64\n");
    CHECK(input.count == 3);
  }

  TEST_CASE("a write of nothing stores nothing") { CHECK(store_input("").count == 0); }

  TEST_CASE("of a long write the first 4096 bytes are passed and counted") {
    const std::string exact(4096, 'x');
    CHECK(store_input(exact).text == exact);
    CHECK(store_input(exact).count == 4096);
    const std::string longer = exact + "y";
    CHECK(store_input(longer).text == exact);
    CHECK(store_input(longer).count == 4096);
  }

  TEST_CASE("a NUL ends the text, the full length is counted") {
    CHECK(store_input("kyber\0junk"sv).text == "kyber");
    CHECK(store_input("kyber\0junk"sv).count == 10);
    CHECK(store_input("\0"sv).text.empty());
    CHECK(store_input("\0"sv).count == 1);
  }

  TEST_CASE("a reader goes on in the text of its first read, and gets a fresh one at 0") {
    Snapshot snapshot;
    int made = 0;
    const auto produce = [&]() -> tl::expected<std::string, int> {
      return "text " + std::to_string(++made);
    };
    CHECK(snapshot.read(0, 3, produce).value() == "tex");
    CHECK(snapshot.read(3, 100, produce).value() == "t 1");
    CHECK(snapshot.read(6, 100, produce).value() == "");
    CHECK(snapshot.read(5000, 100, produce).value() == "");
    CHECK(snapshot.read(2, 2, produce).value() == "xt");
    CHECK(made == 1);
    CHECK(snapshot.read(0, 100, produce).value() == "text 2");
  }

  TEST_CASE("a first read behind 0 produces the text too") {
    Snapshot snapshot;
    const auto produce = []() -> tl::expected<std::string, int> { return "abcdef"; };
    CHECK(snapshot.read(4, 10, produce).value() == "ef");
  }

  TEST_CASE("an error leaves no old text behind") {
    Snapshot snapshot;
    const auto good = []() -> tl::expected<std::string, int> { return "abc"; };
    const auto gone = []() -> tl::expected<std::string, int> { return tl::unexpected(ENODEV); };
    CHECK(snapshot.read(0, 10, good).has_value());
    CHECK(snapshot.read(0, 10, gone).error() == ENODEV);
    CHECK(snapshot.read(1, 10, gone).error() == ENODEV);
  }
}

}  // namespace
}  // namespace elevd::sysfs
