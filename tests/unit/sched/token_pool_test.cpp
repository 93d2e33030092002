// SPDX-License-Identifier: Apache-2.0
#include "sched/token_pool.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <set>

namespace elevd::sched::test::token_pools {
namespace {

/// Takes all there are.
std::set<std::uint32_t> take_all(TokenPool& pool) {
  std::set<std::uint32_t> taken;
  for (std::int32_t token = pool.get(); token >= 0; token = pool.get()) {
    CHECK(taken.insert(static_cast<std::uint32_t>(token)).second);
  }
  return taken;
}

/// Puts `n` back; how many of those puts said that somebody is to be run.
unsigned put(TokenPool& pool, std::set<std::uint32_t>& taken, unsigned n) {
  unsigned runs = 0;
  for (; n != 0; --n) {
    runs += pool.put(*taken.begin()) ? 1U : 0U;
    taken.erase(taken.begin());
  }
  return runs;
}

}  // namespace

TEST_SUITE("token pool") {
  TEST_CASE("wake batches by the table of docs/spec/tags-and-depth.md 3") {
    for (const auto& [depth, batch] :
         {std::pair{256U, 8U}, {128U, 8U}, {64U, 8U}, {16U, 2U}, {1U, 1U}, {63U, 7U}}) {
      CAPTURE(depth);
      TokenPool pool(depth);
      CHECK(pool.depth() == depth);
      CHECK(pool.wake_batch() == batch);
    }
  }

  TEST_CASE("who found nothing is told after a wake batch, once") {
    TokenPool pool(64);
    auto taken = take_all(pool);
    CHECK(taken.size() == 64);
    CHECK(pool.waiting());
    CHECK(put(pool, taken, 7) == 0);
    CHECK(put(pool, taken, 1) == 1);
    CHECK_FALSE(pool.waiting());
    CHECK(put(pool, taken, 56) == 0);
  }

  TEST_CASE("who gets a token waits no more; without a wait nothing is counted") {
    TokenPool pool(16);
    auto taken = take_all(pool);
    CHECK(put(pool, taken, 1) == 0);
    const std::int32_t token = pool.get();
    CHECK(token >= 0);
    CHECK_FALSE(pool.waiting());
    taken.insert(static_cast<std::uint32_t>(token));
    CHECK(put(pool, taken, 16) == 0);
  }

  TEST_CASE("a shrink revokes nothing, and gives no high numbers out any more") {
    TokenPool pool(64);
    auto taken = take_all(pool);
    pool.set_depth(5);
    CHECK_FALSE(pool.waiting());
    CHECK(pool.wake_batch() == 1);
    CHECK(pool.out() == 64);
    CHECK(pool.get() < 0);
    while (*taken.rbegin() >= 5) {
      CHECK(pool.put(*taken.rbegin()));
      taken.erase(*taken.rbegin());
      CHECK(pool.get() < 0);
    }
    CHECK(pool.out() == 5);
    CHECK(put(pool, taken, 5) == 1);
    taken = take_all(pool);
    CHECK(taken == std::set<std::uint32_t>{0, 1, 2, 3, 4});
    pool.set_depth(64);
    CHECK(take_all(pool).size() == 59);
    for (std::uint32_t token = 0; token < 64; ++token) static_cast<void>(pool.put(token));
    CHECK(pool.out() == 0);
  }

  TEST_CASE("a new depth ends a wait") {
    TokenPool pool(1);
    CHECK(pool.get() == 0);
    CHECK(pool.get() < 0);
    CHECK(pool.waiting());
    pool.set_depth(1);
    CHECK_FALSE(pool.waiting());
    CHECK_FALSE(pool.put(0));
  }

  TEST_CASE("the waiter stands in the next of eight queues each time") {
    TokenPool pool(1);
    for (unsigned n = 0; n < 10; ++n) {
      CHECK(pool.get() == 0);
      CHECK(pool.get() < 0);
      TagMapView view = pool.view();
      CHECK(view.parked == 1);
      CHECK(view.active[n % 8]);
      CHECK(pool.put(0));
      view = pool.view();
      CHECK(view.parked == 0);
      CHECK(view.wake_index == (n + 1) % 8);
      CHECK_FALSE(view.active[n % 8]);
    }
  }
}

}  // namespace elevd::sched::test::token_pools
