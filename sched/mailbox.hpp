// SPDX-License-Identifier: Apache-2.0
// Mailbox: messages to a worker, the only thing of a worker that other threads touch.
//
// Owns:       nothing; the node is part of the bio or command that is sent.
// Thread:     post from any thread; take, prepare_sleep and awake by the owner only.
// Invariants: (1) a node is in at most one mailbox at a time;
//             (2) a message posted before the owner sleeps is seen, or its poster is told to wake
//                 the owner (docs/architecture.md, "Concurrency rules", rule 4: every access is
//                 sequentially consistent, and the owner looks once more after saying it sleeps);
//             (3) take() returns messages in the order they were posted.
#pragma once

#include <atomic>
#include <cstdint>

namespace elevd::sched {

/// What a message is; the receiver finds the object around the node by this.
enum class MailKind : std::uint8_t {
  woken_bio,     ///< a tag was freed for this parked bio of yours
  finished_bio,  ///< this bio of yours is done, answer it
  command,       ///< a Command of the daemon
};

struct MailNode {
  MailNode* next = nullptr;
  MailKind kind = MailKind::command;
};

class Mailbox {
 public:
  /// Sends `node`. Returns true when the caller must now wake the owner.
  [[nodiscard]] bool post(MailNode& node) {
    MailNode* head = head_.load(std::memory_order_relaxed);
    do {
      node.next = head;
    } while (!head_.compare_exchange_weak(head, &node, std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
    return asleep_.load(std::memory_order_seq_cst) && asleep_.exchange(false);
  }

  /// Takes every message, oldest first; null when there is none.
  [[nodiscard]] MailNode* take() {
    if (head_.load(std::memory_order_seq_cst) == nullptr) return nullptr;
    MailNode* newest = head_.exchange(nullptr, std::memory_order_seq_cst);
    MailNode* oldest = nullptr;
    while (newest != nullptr) {
      MailNode* next = newest->next;
      newest->next = oldest;
      oldest = newest;
      newest = next;
    }
    return oldest;
  }

  /// Says that the owner is about to sleep. False: there is mail after all, do not.
  [[nodiscard]] bool prepare_sleep() {
    asleep_.store(true, std::memory_order_seq_cst);
    if (head_.load(std::memory_order_seq_cst) == nullptr) return true;
    asleep_.store(false, std::memory_order_seq_cst);
    return false;
  }

  /// Says that the owner is awake again.
  void awake() { asleep_.store(false, std::memory_order_seq_cst); }

  [[nodiscard]] bool empty() const { return head_.load(std::memory_order_seq_cst) == nullptr; }

 private:
  alignas(64) std::atomic<MailNode*> head_{nullptr};
  std::atomic<bool> asleep_{false};
};

}  // namespace elevd::sched
