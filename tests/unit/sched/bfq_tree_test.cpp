// SPDX-License-Identifier: Apache-2.0
// Service trees of bfq: worked examples E1 to E5 and E16 of docs/spec/bfq.md section 20, section 3.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "sched/bfq_tree.hpp"

using namespace elevd::sched;

namespace {

/// Entities named A, B ... of one tree, always backlogged.
struct Backlog {
  BfqTree tree;
  std::deque<BfqEntity> entities;
  std::vector<std::uint64_t> served;

  BfqEntity& add(std::uint32_t weight, std::uint64_t budget) {
    BfqEntity& entity = entities.emplace_back();
    entity.weight = entity.wanted_weight = weight;
    entity.budget = budget;
    served.push_back(0);
    tree.activate(entity, false);
    return entity;
  }
  /// One slot that uses the budget up; the name of who had it.
  char slot() {
    BfqEntity* const chosen = tree.choose();
    REQUIRE(chosen != nullptr);
    std::size_t index = 0;
    while (&entities[index] != chosen) ++index;
    tree.take(*chosen);
    tree.serve(*chosen, chosen->budget);
    served[index] += chosen->budget;
    tree.requeue(*chosen);
    chosen->service = 0;
    tree.check(nullptr);
    return static_cast<char>('A' + index);
  }
  std::string slots(unsigned n) {
    std::string names;
    for (; n != 0; --n) names += slot();
    return names;
  }
};

}  // namespace

TEST_SUITE("bfq tree") {
  TEST_CASE("E1, E2: service over weight") {
    CHECK(bfq_delta(2048, 80) == 107374182);
    CHECK(bfq_delta(2048, 40) == 214748364);
    CHECK(bfq_delta(91136, 40) == 9556302233);
    CHECK(bfq_delta(104305, 80) == 5468585984);
  }

  TEST_CASE("E3: weights 2:1") {
    Backlog backlog;
    const BfqEntity& a = backlog.add(80, 2048);
    backlog.add(40, 2048);
    CHECK(backlog.slot() == 'A');
    CHECK(backlog.tree.vtime() == 71582788);
    CHECK(a.start == 107374182);  // later than virtual time: not eligible
    CHECK(backlog.slots(8) == "BAABAABA");
  }

  TEST_CASE("E4: weights 4:3:2") {
    Backlog backlog;
    for (const std::uint32_t weight : {80U, 60U, 40U}) backlog.add(weight, 2048);
    CHECK(backlog.slots(18) == "ABCABACBAABCABACBA");
  }

  TEST_CASE("E5: weights 8:1") {
    Backlog backlog;
    backlog.add(80, 2048);
    backlog.add(10, 2048);
    CHECK(backlog.slots(19) == "ABAAAAAAAABAAAAAAAA");
  }

  TEST_CASE("E16: all levels at once") {
    Backlog backlog;
    for (std::uint32_t level = 0; level < 8; ++level) backlog.add((8 - level) * 10, 2048);
    backlog.slots(36 * 200);
    for (std::uint32_t level = 0; level < 8; ++level) {
      CHECK(backlog.served[level] == (8 - level) * 200 * 2048);
    }
  }

  TEST_CASE("any weights: shares hold to a budget, whatever the budgets are") {
    for (const std::uint32_t weight : {1U, 2U, 5U, 10U, 1000U}) {
      Backlog backlog;
      backlog.add(weight, 512);
      backlog.add(1, 4096);
      std::uint64_t all = 0;
      while (all < 10'000'000) {
        backlog.slot();
        all = backlog.served[0] + backlog.served[1];
      }
      const double share = static_cast<double>(backlog.served[1]) / static_cast<double>(all);
      CHECK(share == doctest::Approx(1.0 / (weight + 1)).epsilon(0.005 * (weight + 1)));
    }
  }

  TEST_CASE("equal finishes: first come, first served") {
    Backlog backlog;
    for (unsigned n = 0; n < 5; ++n) backlog.add(40, 1024);
    CHECK(backlog.slots(10) == "ABCDEABCDE");
  }

  TEST_CASE("who was idle begins at virtual time, or where its service ended if that is later") {
    BfqTree tree;
    BfqEntity a;
    BfqEntity b;
    a.budget = b.budget = 1000;
    tree.activate(a, false);
    tree.activate(b, false);
    tree.take(*tree.choose());
    tree.serve(a, 1000);
    tree.deactivate(a);
    CHECK(a.place == BfqEntity::Place::idle);
    CHECK(tree.weight_sum() == 80);
    const std::uint64_t ended = a.finish;
    CHECK(ended == bfq_delta(1000, 40));
    a.service = 0;
    tree.activate(a, false);
    CHECK(a.start == ended);
    tree.deactivate(a);
    CHECK(a.place == BfqEntity::Place::idle);
    tree.take(*tree.choose());
    tree.serve(b, 4000);  // virtual time passes the end of a, which is forgotten
    CHECK(a.place == BfqEntity::Place::nowhere);
    CHECK(tree.weight_sum() == 40);
    a.service = 0;
    tree.activate(a, false);
    CHECK(a.start == tree.vtime());
    tree.check(&b);
    tree.remove(a);
    tree.remove(b);
    CHECK(tree.weight_sum() == 0);
  }

  TEST_CASE("back-shifting: begins where it ended, but never ends before virtual time") {
    BfqTree tree;
    BfqEntity a;
    BfqEntity b;
    a.budget = 100;
    b.budget = 10000;
    tree.activate(a, false);
    tree.activate(b, false);
    tree.take(a);
    tree.serve(a, 100);
    tree.deactivate(a);
    const std::uint64_t ended = a.finish;
    tree.take(b);
    tree.serve(b, 300);
    REQUIRE(bfq_later(tree.vtime(), ended));
    a.service = 0;
    a.budget = 2000;
    tree.activate(a, true);
    CHECK(a.start == ended);
    tree.deactivate(a);
    tree.serve(b, 5000);
    a.service = 0;
    a.budget = 10;
    tree.activate(a, true);
    CHECK(a.finish == tree.vtime());
    CHECK(a.finish - a.start == bfq_delta(10, 40));
    tree.remove(a);
    tree.remove(b);
  }

  TEST_CASE("a new weight counts from the next activation or requeue on") {
    Backlog backlog;
    BfqEntity& a = backlog.add(40, 2048);
    backlog.add(40, 2048);
    a.wanted_weight = 80;
    CHECK(backlog.tree.weight_sum() == 80);
    CHECK(backlog.slot() == 'A');
    CHECK(backlog.tree.weight_sum() == 120);
    CHECK(a.finish - a.start == bfq_delta(2048, 80));
    CHECK(backlog.slots(9) == "BABAABAAB");
  }

  TEST_CASE("virtual time jumps if nobody would be eligible") {
    Backlog backlog;
    BfqEntity& a = backlog.add(40, 2048);
    BfqEntity& b = backlog.add(40, 2048);
    backlog.slot();
    backlog.tree.deactivate(b);
    const std::uint64_t before = backlog.tree.vtime();
    CHECK(bfq_later(a.start, before));
    CHECK(backlog.slot() == 'A');
    CHECK(bfq_later(backlog.tree.vtime(), before));
  }
}
