// SPDX-License-Identifier: Apache-2.0
// Messages to a worker, and the lock (docs/architecture.md, "Concurrency rules", rules 3 and 4).
#include "sched/mailbox.hpp"

#include <doctest/doctest.h>

#include <array>
#include <thread>
#include <vector>

#include "sched/lock.hpp"

using namespace elevd::sched;

TEST_SUITE("mailbox") {
  TEST_CASE("messages come out in the order they were posted") {
    Mailbox mailbox;
    std::array<MailNode, 4> nodes;
    CHECK(mailbox.empty());
    CHECK(mailbox.take() == nullptr);
    for (MailNode& node : nodes) CHECK_FALSE(mailbox.post(node));
    CHECK_FALSE(mailbox.empty());
    MailNode* node = mailbox.take();
    for (MailNode& expected : nodes) {
      CHECK(node == &expected);
      node = node->next;
    }
    CHECK(node == nullptr);
    CHECK(mailbox.empty());
  }

  TEST_CASE("only the first message to a sleeper asks for a wake-up") {
    Mailbox mailbox;
    std::array<MailNode, 3> nodes;
    CHECK(mailbox.prepare_sleep());
    CHECK(mailbox.post(nodes[0]));
    CHECK_FALSE(mailbox.post(nodes[1]));
    static_cast<void>(mailbox.take());
    CHECK(mailbox.prepare_sleep());
    mailbox.awake();
    CHECK_FALSE(mailbox.post(nodes[2]));
  }

  TEST_CASE("nobody sleeps over a message") {
    Mailbox mailbox;
    MailNode node;
    CHECK_FALSE(mailbox.post(node));
    CHECK_FALSE(mailbox.prepare_sleep());
    static_cast<void>(mailbox.take());
    MailNode second;
    CHECK_FALSE(mailbox.post(second));  // it did not go to sleep
  }

  TEST_CASE("each message of several senders arrives once, in each sender's order") {
    constexpr unsigned kSenders = 3;
    constexpr unsigned kEach = 20000;
    Mailbox mailbox;
    std::vector<std::vector<MailNode>> nodes(kSenders);
    for (auto& own : nodes) own = std::vector<MailNode>(kEach);
    std::vector<std::thread> senders;
    for (unsigned s = 0; s < kSenders; ++s) {
      senders.emplace_back([&mailbox, &own = nodes[s]] {
        for (MailNode& node : own) static_cast<void>(mailbox.post(node));
      });
    }
    std::array<unsigned, kSenders> next{};
    unsigned taken = 0;
    unsigned out_of_order = 0;
    while (taken < kSenders * kEach) {
      MailNode* node = mailbox.take();
      if (node == nullptr) std::this_thread::yield();
      for (; node != nullptr; ++taken) {
        MailNode* after = node->next;
        bool expected = false;
        for (unsigned s = 0; s < kSenders && !expected; ++s) {
          expected = next[s] < kEach && node == &nodes[s][next[s]];
          if (expected) ++next[s];
        }
        if (!expected) ++out_of_order;
        node = after;
      }
    }
    for (std::thread& sender : senders) sender.join();
    CHECK(out_of_order == 0);
    for (const unsigned n : next) CHECK(n == kEach);
    CHECK(mailbox.empty());
  }
}

TEST_SUITE("lock") {
  TEST_CASE("try_lock says whether it is held") {
    Lock lock;
    CHECK(lock.try_lock());
    CHECK_FALSE(lock.try_lock());
    lock.unlock();
    {
      const LockGuard guard(lock);
      CHECK_FALSE(lock.try_lock());
    }
    CHECK(lock.try_lock());
    lock.unlock();
  }

  TEST_CASE("one holder at a time, nobody is left asleep") {
    Lock lock;
    std::uint64_t counter = 0;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (unsigned n = 0; n < 20000; ++n) {
          const LockGuard guard(lock);
          ++counter;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(counter == 80000);
  }
}
