// SPDX-License-Identifier: Apache-2.0
// Who may join whom: docs/spec/plug-and-merge.md section 4.
#include "sched/merge.hpp"

#include <doctest/doctest.h>

#include "bench.hpp"

using namespace elevd::sched;

namespace {

/// A request with one bio, as RequestQueue would have made it.
struct OneBio {
  Bio bio;
  Request rq;
  OneBio(const Limits& limits, Op op, std::uint64_t start, std::uint64_t length) {
    bio.op = op;
    bio.start = Sector{start};
    bio.length = Sectors{length};
    rq.first = rq.last = &bio;
    rq.op = op;
    rq.start = bio.start;
    rq.length = bio.length;
    rq.segment_count = segments(limits, op, bio.length);
  }
};

struct JoinRow {
  const char* what;
  MergeResult result;
  void (*change)(Limits&, Request&, Bio&);
};
// The request is W1000+8, the bio W1008+8 unless changed.
const JoinRow kJoinRows[] = {
    {"behind it", MergeResult::back, [](Limits&, Request&, Bio&) {}},
    {"before it", MergeResult::front, [](Limits&, Request&, Bio& b) { b.start = Sector{992}; }},
    {"a gap", MergeResult::none, [](Limits&, Request&, Bio& b) { b.start = Sector{1009}; }},
    {"an overlap", MergeResult::none, [](Limits&, Request&, Bio& b) { b.start = Sector{1000}; }},
    {"another operation", MergeResult::none, [](Limits&, Request&, Bio& b) { b.op = Op::read; }},
    {"another class", MergeResult::none,
     [](Limits&, Request&, Bio& b) { b.priority = IoPriority::idle(); }},
    {"another level", MergeResult::none,
     [](Limits&, Request&, Bio& b) { b.priority = IoPriority::best_effort(3); }},
    {"equal priorities that are not the default", MergeResult::back,
     [](Limits&, Request& r, Bio& b) {
       r.priority = IoPriority::real_time(1);
       b.priority = IoPriority::real_time(1);
     }},
    {"no class, whatever the nice values: the same as the default", MergeResult::back,
     [](Limits&, Request& r, Bio& b) {
       r.priority = IoPriority::unset(2, 7);
       b.priority = IoPriority::unset(2, 0);
     }},
    {"no class and another level", MergeResult::none,
     [](Limits&, Request& r, Bio& b) {
       r.priority = IoPriority::best_effort(7);
       b.priority = IoPriority::unset(2, 7);
     }},
    {"bio: nomerge", MergeResult::none, [](Limits&, Request&, Bio& b) { b.flags = kBioNoMerge; }},
    {"bio: preflush", MergeResult::none, [](Limits&, Request&, Bio& b) { b.flags = kBioPreflush; }},
    {"bio: fua", MergeResult::none, [](Limits&, Request&, Bio& b) { b.flags = kBioFua; }},
    {"bio: sync is not compared", MergeResult::back,
     [](Limits&, Request&, Bio& b) { b.flags = kBioSync; }},
    {"request: nomerge", MergeResult::none,
     [](Limits&, Request& r, Bio&) { r.flags = kRqNoMerge; }},
    {"request: in the flush machine", MergeResult::none,
     [](Limits&, Request& r, Bio&) { r.flags = kRqFlushSeq; }},
    {"request: started", MergeResult::none,
     [](Limits&, Request& r, Bio&) { r.flags = kRqStarted; }},
    {"request: fua", MergeResult::none, [](Limits&, Request& r, Bio&) { r.bio_flags = kBioFua; }},
    {"request: preflush", MergeResult::none,
     [](Limits&, Request& r, Bio&) { r.bio_flags = kBioPreflush; }},
    {"write zeroes", MergeResult::none,
     [](Limits&, Request& r, Bio& b) { r.op = b.op = Op::write_zeroes; }},
    {"flush", MergeResult::none, [](Limits&, Request& r, Bio& b) { r.op = b.op = Op::flush; }},
    {"adjacent discards", MergeResult::back,
     [](Limits&, Request& r, Bio& b) { r.op = b.op = Op::discard; }},
    {"discards apart (one range only)", MergeResult::none,
     [](Limits&, Request& r, Bio& b) {
       r.op = b.op = Op::discard;
       b.start = Sector{5000};
     }},
    {"exactly the size limit", MergeResult::back,
     [](Limits& l, Request&, Bio&) { l.max_sectors = Sectors{16}; }},
    {"over the size limit", MergeResult::refused,
     [](Limits& l, Request&, Bio&) { l.max_sectors = Sectors{15}; }},
    {"over it in front", MergeResult::refused,
     [](Limits& l, Request&, Bio& b) {
       l.max_sectors = Sectors{15};
       b.start = Sector{992};
     }},
    {"discards have their own limit", MergeResult::refused,
     [](Limits& l, Request& r, Bio& b) {
       r.op = b.op = Op::discard;
       l.max_discard = Sectors{15};
     }},
    {"too many segments", MergeResult::refused,
     [](Limits& l, Request&, Bio&) { l.max_segments = 1; }},
    {"across a chunk boundary", MergeResult::refused,
     [](Limits& l, Request&, Bio&) { l.chunk = Sectors{1008}; }},
    {"in front across a chunk boundary", MergeResult::refused,
     [](Limits& l, Request&, Bio& b) {
       l.chunk = Sectors{1000};
       b.start = Sector{992};
     }},
    {"up to a chunk boundary", MergeResult::back,
     [](Limits& l, Request&, Bio&) { l.chunk = Sectors{1016}; }},
};

}  // namespace

TEST_SUITE("merge") {
  TEST_CASE("a bio joins a neighbour only if every rule holds") {
    for (const JoinRow& row : kJoinRows) {
      CAPTURE(row.what);
      Limits limits;
      OneBio one(limits, Op::write, 1000, 8);
      Bio bio;
      bio.op = Op::write;
      bio.start = Sector{1008};
      bio.length = Sectors{8};
      row.change(limits, one.rq, bio);
      const RequestFlags flags = one.rq.flags;
      const MergeResult result = try_merge(limits, one.rq, bio);
      CHECK(result == row.result);
      const bool joined = result == MergeResult::back || result == MergeResult::front;
      CHECK(one.rq.length == Sectors{joined ? 16U : 8U});
      CHECK(one.rq.segment_count == (joined ? 2 : 1));
      CHECK(one.rq.flags == (result == MergeResult::refused ? (flags | kRqNoMerge) : flags));
    }
  }

  TEST_CASE("bios are chained in ascending order whichever side they join at") {
    const Limits limits;
    OneBio one(limits, Op::read, 1000, 8);
    Bio before;
    before.start = Sector{992};
    before.length = Sectors{8};
    Bio behind;
    behind.start = Sector{1008};
    behind.length = Sectors{16};
    CHECK(try_merge(limits, one.rq, before) == MergeResult::front);
    CHECK(try_merge(limits, one.rq, behind) == MergeResult::back);
    CHECK(one.rq.start == Sector{992});
    CHECK(one.rq.end() == Sector{1024});
    CHECK(one.rq.first == &before);
    CHECK(before.next == &one.bio);
    CHECK(one.bio.next == &behind);
    CHECK(behind.next == nullptr);
    CHECK(one.rq.last == &behind);
  }

  TEST_CASE("two requests join like a back merge and keep the earlier start time") {
    const Limits limits;
    OneBio first(limits, Op::write, 0, 8);
    OneBio second(limits, Op::write, 8, 24);
    first.rq.allocated = Instant{2000};
    second.rq.allocated = Instant{1000};
    CHECK(try_merge_requests(limits, first.rq, second.rq));
    CHECK(first.rq.length == Sectors{32});
    CHECK(first.rq.segment_count == 2);
    CHECK(first.rq.allocated == Instant{1000});
    CHECK(first.bio.next == &second.bio);
    CHECK(first.rq.last == &second.bio);
    CHECK(second.rq.first == nullptr);
  }

  TEST_CASE("two requests that may not join stay as they are") {
    struct Row {
      const char* what;
      void (*change)(Limits&, Request&, Request&);
      RequestFlags flags_after;
    };
    const Row rows[] = {
        {"a gap", [](Limits&, Request&, Request& n) { n.start = Sector{9}; }, 0},
        {"the other way round", [](Limits&, Request& r, Request&) { r.start = Sector{16}; }, 0},
        {"operation", [](Limits&, Request&, Request& n) { n.op = Op::read; }, 0},
        {"priority", [](Limits&, Request&, Request& n) { n.priority = IoPriority::idle(); }, 0},
        {"the second is nomerge", [](Limits&, Request&, Request& n) { n.flags = kRqNoMerge; }, 0},
        {"the second is fua", [](Limits&, Request&, Request& n) { n.bio_flags = kBioFua; }, 0},
        {"size", [](Limits& l, Request&, Request&) { l.max_sectors = Sectors{15}; }, kRqNoMerge},
        {"segments", [](Limits& l, Request&, Request&) { l.max_segments = 1; }, kRqNoMerge},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      Limits limits;
      OneBio first(limits, Op::write, 0, 8);
      OneBio second(limits, Op::write, 8, 8);
      row.change(limits, first.rq, second.rq);
      CHECK_FALSE(try_merge_requests(limits, first.rq, second.rq));
      CHECK(first.rq.length == Sectors{8});
      CHECK(second.rq.first == &second.bio);
      CHECK(first.rq.flags == row.flags_after);
    }
  }
}
