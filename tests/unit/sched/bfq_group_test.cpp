// SPDX-License-Identifier: Apache-2.0
// Groups: docs/spec/bfq.md sections 13 and 14, on the elevator by itself.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <map>

#include "bfq_bench.hpp"

using namespace elevd::sched;
using elevd::sched::test::BfqBench;

namespace {

struct Strict : BfqBench {
  Strict() {
    tune([](BfqTunables& tunables) {
      tunables.strict_guarantees = true;
      tunables.max_budget = 64;
    });
  }
  /// Sectors of each issuer in `turns` requests; each has `outstanding` of 8 sectors all the time.
  std::map<std::uint64_t, std::uint64_t> serve(const std::vector<Item>& issuers, unsigned turns) {
    std::map<std::uint64_t, std::uint64_t> sectors;
    std::uint64_t place = 0;
    for (const Item& item : issuers) {
      for (unsigned n = 0; n < 4; ++n) add_next(item, place);
    }
    for (unsigned n = 0; n < turns; ++n) {
      const std::uint64_t issuer = dispatch_issuer();
      REQUIRE(issuer != 0);
      sectors[issuer] += 8;
      advance_us(100);
      complete_all();
      for (const Item& item : issuers) {
        if (item.issuer == issuer) add_next(item, place);
      }
    }
    return sectors;
  }
  void add_next(Item item, std::uint64_t& place) {
    item.start = item.issuer * 1'000'000 + place++ * 8;
    add(item);
  }
};

DepthLimit limit_of(BfqBench& bench, const BfqBench::Item& item) {
  Bio bio;
  bench.fill(bio, item);
  return bench.elevator.limit(bio);
}

}  // namespace

TEST_SUITE("bfq groups") {
  TEST_CASE("paths are numbers, with those above them") {
    Groups groups;
    CHECK(groups.id("/") == kRootGroup);
    CHECK(groups.id("") == kRootGroup);
    CHECK(groups.id("nonsense") == kRootGroup);
    const GroupId c = groups.id("/a/b/c");
    const GroupId b = groups.above(c);
    CHECK(groups.path(b) == "/a/b");
    CHECK(groups.id("/a/b/") == b);
    CHECK(groups.path(groups.above(b)) == "/a");
    CHECK(groups.above(groups.above(b)) == kRootGroup);
    CHECK(groups.path(kRootGroup) == "/");
    CHECK(groups.id("/a/b/c") == c);
  }

  TEST_CASE("beyond the largest number of groups new ones are the root") {
    Groups groups;
    for (unsigned n = 1; n < Groups::kMost; ++n) {
      REQUIRE(groups.id("/" + std::to_string(n)) == n);
    }
    CHECK(groups.id("/one/more") == kRootGroup);
    CHECK(groups.id("/7") == 7);
  }

  TEST_CASE("the share of a group is that of its weight, whoever is in it") {
    Strict bench;
    const GroupId a = bench.group("/a", 200);
    const GroupId b = bench.group("/b");
    auto sectors = bench.serve(
        {{.issuer = 1, .group = a}, {.issuer = 2, .group = b}, {.issuer = 3, .group = b}}, 3000);
    CHECK(sectors[1] / 8 == doctest::Approx(2000).epsilon(0.02));
    CHECK(sectors[2] / 8 == doctest::Approx(500).epsilon(0.03));
    CHECK(sectors[3] / 8 == doctest::Approx(500).epsilon(0.03));
  }

  TEST_CASE("classes are local to a group") {
    Strict bench;
    auto sectors = bench.serve(
        {{.issuer = 1, .priority = IoPriority::real_time(0), .group = bench.group("/a")},
         {.issuer = 2, .group = bench.group("/b")},
         {.issuer = 3, .priority = IoPriority::idle(), .group = bench.group("/b")}},
        2000);
    CHECK(sectors[1] / 8 == doctest::Approx(1000).epsilon(0.03));
    CHECK(sectors[2] > 50 * sectors[3]);
  }

  TEST_CASE("a new weight counts from the next turn of the group on") {
    Strict bench;
    const GroupId a = bench.group("/a");
    const std::vector<BfqBench::Item> both = {{.issuer = 1, .group = a},
                                              {.issuer = 2, .group = bench.group("/b")}};
    auto sectors = bench.serve(both, 1000);
    CHECK(sectors[1] / 8 == doctest::Approx(500).epsilon(0.03));
    bench.group("/a", 400);
    sectors = bench.serve(both, 1000);
    CHECK(sectors[1] / 8 == doctest::Approx(800).epsilon(0.03));
    bench.weights.set_usual(200);  // of nobody: both were given theirs
    bench.elevator.group_weights_changed();
    sectors = bench.serve(both, 1000);
    CHECK(sectors[1] / 8 == doctest::Approx(800).epsilon(0.03));
  }

  TEST_CASE("a queue moves when its issuer is seen in another group") {
    BfqBench bench;
    const GroupId a = bench.group("/a");
    const GroupId b = bench.group("/b");
    bench.add({.issuer = 1, .start = 0, .group = a});
    bench.add({.issuer = 1, .start = 1000, .group = a});
    CHECK(bench.queue(1).above == bench.elevator.group(a));
    SUBCASE("while it is in service") {
      REQUIRE(bench.dispatch_issuer() == 1);
      bench.add({.issuer = 1, .start = 2000, .group = b});
      CHECK(bench.expired(BfqReason::preempted) == 1);
      CHECK(bench.elevator.group(b)->allocated == 3);
    }
    SUBCASE("while it waits for its turn") {
      bench.add({.issuer = 1, .start = 2000, .group = b});
      CHECK(bench.elevator.group(b)->allocated == 3);
    }
    SUBCASE("at rest") {
      REQUIRE(bench.dispatch_issuer() == 1);
      REQUIRE(bench.dispatch_issuer() == 1);
      bench.complete_all();
      bench.advance_us(1'000'000);
      bench.add({.issuer = 1, .start = 2000, .group = b});
      CHECK(bench.elevator.group(b)->allocated == 1);
    }
    CHECK(bench.queue(1).above == bench.elevator.group(b));
    CHECK(bench.elevator.group(a)->allocated == 0);
    CHECK(bench.elevator.group(a)->used_queues == 0);
    CHECK(bench.elevator.group(a)->place != BfqEntity::Place::active);
    CHECK(bench.elevator.group(b)->place == BfqEntity::Place::active);
    CHECK(bench.dispatch_issuer() == 1);
  }

  TEST_CASE("what waits for nobody goes to the queue of its group") {
    BfqBench bench;
    const GroupId a = bench.group("/a");
    bench.add({.op = Op::write, .start = 0, .sync = false});
    bench.add({.op = Op::write, .start = 100, .sync = false, .group = a});
    CHECK(bench.elevator.root().async({}).queued == 1);
    CHECK(bench.elevator.group(a)->async({}).queued == 1);
  }

  TEST_CASE("bios of two groups share no request") {
    BfqBench bench;
    bench.nomerges = 0;
    const GroupId a = bench.group("/a");
    Request& rq = bench.add({.op = Op::write, .start = 0, .sync = false, .group = a});
    Bio bio;
    RequestList merged;
    bench.fill(bio, {.op = Op::write, .start = 8, .sync = false});
    CHECK(!bench.elevator.allow_merge(rq, bio));
    CHECK(bench.elevator.bio_merge(bio, merged, bench.now) == MergeResult::none);
    bio.group = a;
    CHECK(bench.elevator.allow_merge(rq, bio));
    CHECK(bench.elevator.bio_merge(bio, merged, bench.now) == MergeResult::back);
  }

  TEST_CASE("groups make a disk asymmetric: the one in service is waited for") {
    BfqBench bench;  // no rotation, so waiting gains nothing by itself
    const GroupId a = bench.group("/a");
    GroupId other = a;
    SUBCASE("one group") {}
    SUBCASE("two groups") { other = bench.group("/b"); }
    bench.add({.issuer = 1, .start = 0, .group = a});
    bench.add({.issuer = 2, .start = 5000, .group = other});
    REQUIRE(bench.dispatch_issuer() == 1);
    bench.complete_all();
    CHECK(bench.elevator.waiting() == (other != a));
  }

  TEST_CASE("a heavier group preempts a lighter one, not itself") {
    BfqBench bench;
    const GroupId a = bench.group("/a");
    bench.add({.issuer = 1, .start = 0, .group = a});
    bench.add({.issuer = 1, .start = 8, .group = a});
    REQUIRE(bench.dispatch_issuer() == 1);
    SUBCASE("heavier") {
      bench.add({.issuer = 2, .start = 5000, .group = bench.group("/b", 101)});
      CHECK(bench.expired(BfqReason::preempted) == 1);
    }
    SUBCASE("lighter, of a higher level and class") {
      bench.add({.issuer = 2,
                 .start = 5000,
                 .priority = IoPriority::real_time(0),
                 .group = bench.group("/b", 99)});
      CHECK(bench.expired(BfqReason::preempted) == 0);
    }
    SUBCASE("the same group, a higher level") {
      bench.add({.issuer = 2, .start = 5000, .priority = IoPriority::best_effort(0), .group = a});
      CHECK(bench.expired(BfqReason::preempted) == 1);
    }
  }

  TEST_CASE("a group that would be served again at once is not preempted") {
    BfqGroup root;
    BfqGroup mine(&root);
    BfqGroup other(&root);
    std::array<BfqEntity, 3> leaves;
    for (BfqEntity& leaf : leaves) leaf.budget = 100;
    leaves[2].budget = 1000;
    leaves[0].above = leaves[1].above = &mine;
    leaves[2].above = &other;
    for (BfqEntity& leaf : leaves) bfq_activate(leaf, 1, false);
    REQUIRE(root.take_next({1}) == &mine);
    REQUIRE(mine.take_next({1}) == leaves.data());
    // Both begin at 0: the first one served is ahead of its share, until time has caught up.
    bfq_serve(leaves[0], 100);
    CHECK(!bfq_would_return(mine));
    SUBCASE("as it is behind its share") {
      mine.service = 10;
      CHECK(bfq_would_return(mine));
      SUBCASE("but somebody of a better class waits beside it") {
        BfqEntity urgent;
        urgent.above = &root;
        bfq_activate(urgent, 0, false);
        CHECK(!bfq_would_return(mine));
        urgent.tree->remove(urgent);
      }
      SUBCASE("but nobody else is in it") {
        bfq_remove(leaves[1]);
        CHECK(!bfq_would_return(mine));
      }
    }
    SUBCASE("as nobody else is there") {
      bfq_remove(leaves[2]);
      CHECK(bfq_would_return(mine));
    }
    CHECK(!bfq_would_return(leaves[0]));
    for (BfqEntity* entity : {&leaves[0], &leaves[1], &leaves[2], static_cast<BfqEntity*>(&mine),
                              static_cast<BfqEntity*>(&other)}) {
      if (entity->tree != nullptr) entity->tree->remove(*entity);
    }
  }

  TEST_CASE("E13: who holds its share of the requests has depth 1") {
    BfqBench bench;
    const BfqBench::Item mine{.issuer = 1, .group = bench.group("/a")};
    bench.add({.issuer = 2, .start = 900'000, .group = bench.group("/b")});
    std::vector<Request*> held;
    for (std::uint64_t n = 0; n < 128; ++n) {
      CHECK(limit_of(bench, mine).shallow == Sbitmap::kUnlimited);
      BfqBench::Item item = mine;
      item.start = 1000 * n;
      held.push_back(&bench.add(item));
    }
    CHECK(limit_of(bench, mine).shallow == 1);
    CHECK(limit_of(bench, mine).depth_class == DepthClass::over_limit);
    CHECK(limit_of(bench, {.issuer = 2, .group = 2}).shallow == Sbitmap::kUnlimited);
    CHECK(limit_of(bench, {.issuer = 3}).shallow == Sbitmap::kUnlimited);
    for (Request* rq = nullptr; (rq = bench.dispatch()) == nullptr || rq->issuer != 1;) {
      bench.advance_us(1000);
      bench.complete_all();
      bench.add({.issuer = 2, .start = 900'000, .group = 2});
    }
    bench.complete_all();
    CHECK(limit_of(bench, mine).shallow == Sbitmap::kUnlimited);
  }

  TEST_CASE("over the limit: lower classes count little, writes without a waiter as well") {
    BfqBench bench;
    const BfqBench::Item idle{.issuer = 1, .priority = IoPriority::idle()};
    bench.add({.issuer = 2, .start = 900'000});
    // 256 x 10 / (8 x 40 + 10)
    for (std::uint64_t n = 0; n < 8; ++n) {
      CHECK(limit_of(bench, idle).shallow == Sbitmap::kUnlimited);
      BfqBench::Item item = idle;
      item.start = 1000 * n;
      bench.add(item);
    }
    CHECK(limit_of(bench, idle).shallow == 1);
    const BfqBench::Item writer{.issuer = 9, .op = Op::write, .sync = false};
    // 256 x 40 / (2 x 40)
    for (std::uint64_t n = 0; n < 128; ++n) {
      CHECK(limit_of(bench, writer).depth_class == DepthClass::async);
      BfqBench::Item item = writer;
      item.start = 1'000'000 + 1000 * n;
      bench.add(item);
    }
    CHECK(limit_of(bench, writer).depth_class == DepthClass::over_limit);
  }

  TEST_CASE("groups that nobody is in any more are given up") {
    BfqBench bench;
    for (std::uint64_t n = 0; n < 1000; ++n) {
      const GroupId group = bench.group("/" + std::to_string(n) + "/below");
      bench.add({.op = Op::write, .start = 0, .sync = false, .group = group});
      bench.add({.issuer = 7, .start = 5000, .group = group});
      while (bench.elevator.has_work()) {
        if (bench.dispatch() == nullptr) bench.advance_us(20'000);
        bench.complete_all();
      }
    }
    CHECK(bench.elevator.group_count() < 200);
  }
}
