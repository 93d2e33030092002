// SPDX-License-Identifier: Apache-2.0
// Waiting for tags and being woken: docs/spec/tags-and-depth.md section 3.
#include "sched/tag_map.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <string>
#include <vector>

using namespace elevd::sched;

namespace {

/// A map whose tags are all taken, and bios that want one.
struct FullMap {
  TagMap tags;
  std::vector<std::uint32_t> held;
  std::deque<Bio> bios;
  BioList woken;

  explicit FullMap(std::uint32_t depth, std::uint32_t min_shallow = Sbitmap::kUnlimited)
      : tags(depth, depth, 1) {
    tags.set_min_shallow_depth(min_shallow);
    for (std::uint32_t n = 0; n < depth; ++n) {
      held.push_back(static_cast<std::uint32_t>(tags.try_get(0, Sbitmap::kUnlimited)));
    }
  }
  ~FullMap() {
    while (!held.empty() || !woken.empty()) {
      while (!woken.empty()) static_cast<void>(resume());
      free(static_cast<unsigned>(held.size()));
    }
  }

  /// A new bio comes; the tag it gets, or -1: parked. `issuer` numbers the bios from 1.
  std::int32_t want(DepthLimit limit = {}) {
    Bio& bio = bios.emplace_back();
    bio.issuer = bios.size();
    const std::int32_t tag = tags.get_or_park(bio, 0, limit, false, woken);
    if (tag >= 0) held.push_back(static_cast<std::uint32_t>(tag));
    return tag;
  }
  void free(unsigned n = 1) {
    for (; n != 0 && !held.empty(); --n) {
      const std::uint32_t tag = held.front();
      held.erase(held.begin());
      tags.put(tag, 0, woken);
    }
  }
  void free_tag(std::uint32_t tag) {
    std::erase(held, tag);
    tags.put(tag, 0, woken);
  }
  /// Goes on with the bio woken first; the tag it gets, or -1: parked again.
  std::int32_t resume(DepthLimit limit = {}) {
    Bio& bio = woken.front();
    woken.pop_front();
    std::int32_t tag = tags.try_get(0, limit.shallow);
    if (tag >= 0) {
      tags.served(bio, woken);
    } else {
      tag = tags.get_or_park(bio, 0, limit, true, woken);
    }
    if (tag >= 0) held.push_back(static_cast<std::uint32_t>(tag));
    return tag;
  }
  [[nodiscard]] std::string woken_text() const {
    std::string text;
    for (const Bio& bio : woken) text += std::to_string(bio.issuer) + " ";
    return text;
  }
};

constexpr DepthLimit kAsync{DepthClass::async, 4};
constexpr DepthLimit kOverLimit{DepthClass::over_limit, 1};

}  // namespace

TEST_SUITE("tag map") {
  TEST_CASE("wake batches as measured") {
    constexpr std::uint32_t kNone = Sbitmap::kUnlimited;
    struct Row {
      std::uint32_t depth, min_shallow, batch;
    };
    const Row rows[] = {
        {4, kNone, 1},  {15, kNone, 1}, {16, kNone, 2}, {31, kNone, 3},  {32, kNone, 4},
        {40, kNone, 5}, {63, kNone, 7}, {64, kNone, 8}, {128, kNone, 8}, {1, kNone, 1},
        {20, 15, 1},    {32, 24, 3},    {64, 48, 6},    {85, 63, 7},     {86, 64, 8},
        {256, 192, 8},  {2048, 1, 1},   {64, 1, 1},     {256, 256, 8},   {256, kNone, 8},
    };
    for (const Row& row : rows) {
      CAPTURE(row.depth);
      CAPTURE(row.min_shallow);
      CHECK(TagMap::wake_batch_for(row.depth, row.min_shallow) == row.batch);
      TagMap tags(row.depth, row.depth, 1);
      tags.set_min_shallow_depth(row.min_shallow);
      CHECK(tags.wake_batch() == row.batch);
      CHECK(tags.min_shallow_depth() == row.min_shallow);
    }
  }

  TEST_CASE("the wake batch follows a change of depth") {
    TagMap tags(256, 256, 1);
    CHECK(tags.wake_batch() == 8);
    tags.set_depth(20);
    CHECK(tags.wake_batch() == 2);
    tags.set_min_shallow_depth(15);
    CHECK(tags.wake_batch() == 1);
    tags.set_depth(256);
    CHECK(tags.wake_batch() == 1);
    tags.set_min_shallow_depth(Sbitmap::kUnlimited);
    CHECK(tags.wake_batch() == 8);
  }

  TEST_CASE("there is one request per tag, for as many as the map can grow to") {
    TagMap tags(64, 8, 1);
    CHECK(&tags.request(63) == &tags.request(0) + 63);
  }

  TEST_CASE("who finds a tag is not parked") {
    TagMap tags(4, 4, 1);
    Bio bio;
    BioList woken;
    const std::int32_t tag = tags.get_or_park(bio, 0, {}, false, woken);
    CHECK(tag >= 0);
    CHECK(tags.waiting() == 0);
    CHECK_FALSE(bio.link.is_linked());
    tags.put(static_cast<std::uint32_t>(tag), 0, woken);
  }

  TEST_CASE("bios are woken when a whole batch of tags is free") {
    FullMap map(128);  // batch 8
    for (unsigned n = 0; n < 20; ++n) CHECK(map.want() == -1);
    CHECK(map.tags.parked() == 20);
    map.free(7);
    CHECK(map.woken_text() == "");
    map.free(1);
    CHECK(map.woken_text() == "1 2 3 4 5 6 7 8 ");
    CHECK(map.tags.parked() == 12);
    CHECK(map.tags.waiting() == 20);
    map.free(8);
    CHECK(map.woken_text() == "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 ");
    map.free(8);
    CHECK(map.tags.parked() == 0);
    while (!map.woken.empty()) CHECK(map.resume() >= 0);
    CHECK(map.tags.waiting() == 0);
  }

  TEST_CASE("with a batch of 1 every free wakes one") {
    FullMap map(128, 1);
    for (unsigned n = 0; n < 3; ++n) map.want();
    map.free();
    CHECK(map.woken_text() == "1 ");
    map.free();
    CHECK(map.woken_text() == "1 2 ");
  }

  TEST_CASE("frees count only while somebody waits") {
    FullMap map(16);  // batch 2
    map.free(1);
    CHECK(map.want() >= 0);
    CHECK(map.want() == -1);
    map.free(1);
    CHECK(map.woken_text() == "");  // the free before anybody waited did not count
    map.free(1);
    CHECK(map.woken_text() == "2 ");
  }

  TEST_CASE("parked bios are spread over the eight queues and woken round robin") {
    FullMap map(128);
    for (unsigned n = 0; n < 10; ++n) map.want();
    for (unsigned q = 0; q < 8; ++q) CHECK(map.tags.queue_active(q));
    CHECK(map.tags.wake_index() == 0);
    map.free(8);
    CHECK(map.tags.wake_index() == 0);  // all eight were served once
    CHECK(map.tags.queue_active(0));    // a queue need not be emptied first
    CHECK(map.tags.queue_active(1));
    CHECK_FALSE(map.tags.queue_active(2));
  }

  TEST_CASE("the wake index goes on where it stopped") {
    FullMap map(128, 24);  // batch 3
    for (unsigned n = 0; n < 8; ++n) map.want();
    map.free(3);
    CHECK(map.tags.wake_index() == 3);
    CHECK(map.woken_text() == "1 2 3 ");
    map.free(3);
    CHECK(map.tags.wake_index() == 6);
    CHECK(map.woken_text() == "1 2 3 4 5 6 ");
  }

  TEST_CASE("a new bio parks without a try while one of its class waits") {
    FullMap map(16);
    map.want();
    map.free(1);
    CHECK(map.tags.bitmap().busy() == 15);
    CHECK(map.want() == -1);  // though a tag is free
    CHECK(map.tags.somebody_waits(DepthClass::unlimited));
    map.free(1);              // both are woken
    CHECK(map.want() == -1);  // woken and not served counts as waiting
    CHECK(map.resume() >= 0);
    CHECK(map.resume() >= 0);
    CHECK(map.woken_text() == "");
    CHECK(map.tags.waiting() == 1);
  }

  TEST_CASE("who waits for whom, by class") {
    constexpr DepthClass kClasses[] = {DepthClass::unlimited, DepthClass::sync_write,
                                       DepthClass::async, DepthClass::over_limit};
    for (unsigned parked = 0; parked < 4; ++parked) {
      for (unsigned comes = 0; comes < 4; ++comes) {
        CAPTURE(parked);
        CAPTURE(comes);
        FullMap map(16);
        map.want({kClasses[parked], Sbitmap::kUnlimited});
        map.free(1);
        // The parked one is of the same or a less limited class: it comes first.
        CHECK((map.want({kClasses[comes], Sbitmap::kUnlimited}) == -1) == (parked <= comes));
      }
    }
  }

  TEST_CASE("a bio that has begun tries even while others wait, and parks at the tail") {
    FullMap map(16);
    map.want();
    map.free(1);
    Bio& begun = map.bios.emplace_back();
    begun.issuer = 77;
    const std::int32_t tag = map.tags.get_or_park(begun, 0, {}, true, map.woken);
    REQUIRE(tag >= 0);
    map.held.push_back(static_cast<std::uint32_t>(tag));
    CHECK(map.tags.get_or_park(begun, 0, {}, true, map.woken) == -1);
    map.free(2);
    CHECK(map.woken_text() == "1 77 ");
  }

  TEST_CASE("a woken bio that finds no tag is not behind those that came later") {
    FullMap map(128, 1);
    map.want();
    map.want();
    map.free(1);
    CHECK(map.woken_text() == "1 ");
    const std::int32_t stolen = map.tags.try_get(0, Sbitmap::kUnlimited);
    map.held.push_back(static_cast<std::uint32_t>(stolen));
    CHECK(map.resume() == -1);
    CHECK(map.tags.waiting() == 2);
    map.free(2);
    CHECK(map.woken_text() == "1 2 ");
  }

  TEST_CASE("a woken bio that finds no tag for its class passes the wake-up on") {
    FullMap map(16, 4);  // async: bits 0 4 8 12; batch 1
    map.want(kAsync);
    map.want(kAsync);
    map.want();
    map.free_tag(15);
    CHECK(map.woken_text() == "1 ");
    CHECK(map.resume(kAsync) == -1);
    CHECK(map.woken_text() == "3 ");
    CHECK(map.resume() == 15);
    map.free_tag(4);
    CHECK(map.woken_text() == "1 ");
    CHECK(map.resume(kAsync) == 4);
    map.free_tag(8);
    CHECK(map.woken_text() == "2 ");
    CHECK(map.resume(kAsync) == 8);
    CHECK(map.tags.waiting() == 0);
  }

  TEST_CASE("it passes it to a less limited one only") {
    FullMap map(16, 1);
    map.want(kOverLimit);
    map.want(kOverLimit);
    map.want(kAsync);
    map.free_tag(15);
    CHECK(map.resume(kOverLimit) == -1);
    CHECK(map.woken_text() == "3 ");
    CHECK(map.resume(kAsync) == -1);
    CHECK(map.woken_text() == "");
    CHECK(map.tags.parked() == 3);
    map.free_tag(0);  // the one position of all classes
    while (!map.woken.empty()) {
      const bool over =
          map.woken.front().depth_class == static_cast<unsigned>(DepthClass::over_limit);
      static_cast<void>(map.resume(over ? kOverLimit : kAsync));
    }
    CHECK(map.tags.parked() == 2);
  }

  TEST_CASE("who parked without a try is woken when the last woken one was served") {
    for (const bool late : {false, true}) {
      CAPTURE(late);
      FullMap map(16);  // batch 2
      map.want();
      map.free(2);
      REQUIRE(map.woken_text() == "1 ");
      map.free(14);  // nobody is parked: nothing is counted
      CHECK(map.want() == -1);
      Bio& first = map.woken.front();
      map.woken.pop_front();
      // Late: the try outside the lock failed, the one inside finds the tags freed meanwhile.
      std::int32_t tag = -1;
      if (late) {
        tag = map.tags.get_or_park(first, 0, {}, true, map.woken);
      } else {
        tag = map.tags.try_get(0, Sbitmap::kUnlimited);
        map.tags.served(first, map.woken);
      }
      REQUIRE(tag >= 0);
      map.held.push_back(static_cast<std::uint32_t>(tag));
      CHECK(map.woken_text() == "2 ");
      if (map.woken.empty()) {  // clean up after a failure: enough frees to wake it
        map.free(1);
        for (unsigned n = 0; n < 2; ++n) {
          map.tags.put(static_cast<std::uint32_t>(map.tags.try_get(0, Sbitmap::kUnlimited)), 0,
                       map.woken);
        }
      }
    }
  }
}
