// SPDX-License-Identifier: Apache-2.0
// BufferPool, RequestPool: the memory of a worker's I/O, all of it made at start.
//
// Owns:       the memory. Buffers are address space until they are touched.
// Thread:     take and put by the owning worker; send_home by any worker.
// Invariants: (1) last in, first out: the buffers in use are the fewest and the warmest;
//             (2) an empty pool is back-pressure (null), never an error;
//             (3) who waits for memory is told when some comes home.
// See also:   docs/spec/fuse.md section 7 (where the payload lies);
//             docs/architecture.md "Front ends".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "front_request.hpp"

namespace elevd::daemon {

/// Largest payload of one request (docs/spec/fuse.md section 3).
inline constexpr std::size_t kMaxPayload = 512 * 1024;
/// The same over a ring, whose entries hold that memory for good (section 8.5).
inline constexpr std::size_t kMaxRingPayload = 128 * 1024;
/// The headers of a WRITE lie right before the page on which its payload starts.
inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kWriteHeader = 80;
/// Headers, payload, and one block on either side for a range that was widened.
inline constexpr std::size_t kBufferStride = kPage + kMaxPayload + 2 * kPage;

/// A lock-free stack on which other workers put what belongs to this one.
template <class Node>
class HomeStack {
 public:
  /// True: the owner waits for it, wake it.
  [[nodiscard]] bool push(Node& node) {
    Node* head = head_.load(std::memory_order_relaxed);
    do {
      node.next_free = head;
    } while (!head_.compare_exchange_weak(head, &node, std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
    return waiting_.load(std::memory_order_seq_cst) && waiting_.exchange(false);
  }
  /// By the owner: everything, linked by next_free.
  [[nodiscard]] Node* take_all() {
    if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    return head_.exchange(nullptr, std::memory_order_seq_cst);
  }
  /// By the owner: tell me when something comes. False: it just did.
  [[nodiscard]] bool wait() {
    waiting_.store(true, std::memory_order_seq_cst);
    if (head_.load(std::memory_order_seq_cst) == nullptr) return true;
    waiting_.store(false, std::memory_order_seq_cst);
    return false;
  }

 private:
  alignas(64) std::atomic<Node*> head_{nullptr};
  std::atomic<bool> waiting_{false};
};

class BufferPool;

/// The first bytes of a buffer, far from where a message or a payload lies.
struct BufferHead {
  BufferPool* pool = nullptr;
  BufferHead* next_free = nullptr;
};

/// Buffers of kBufferStride bytes. What is taken and put is the place of the payload: a page, with
/// room for the headers of a message before it.
class BufferPool {
 public:
  /// `owner`: index of the worker that owns it.
  BufferPool(std::size_t count, unsigned owner);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  [[nodiscard]] std::byte* take() {
    if (free_.empty()) return nullptr;
    std::byte* payload = free_.back();
    free_.pop_back();
    return payload;
  }
  void put(std::byte* payload) { free_.push_back(payload); }
  [[nodiscard]] std::size_t available() const { return free_.size(); }

  /// The pool a buffer came from.
  [[nodiscard]] static BufferPool& of(std::byte* payload) { return *head_of(payload).pool; }
  /// By a worker that is not the owner. True: wake the owner.
  [[nodiscard]] bool send_home(std::byte* payload) { return home_.push(head_of(payload)); }
  /// By the owner: puts what came home; true if there was something.
  bool collect_home();
  [[nodiscard]] bool wait() { return home_.wait(); }
  [[nodiscard]] unsigned owner() const { return owner_; }

 private:
  static BufferHead& head_of(std::byte* payload) {
    return *reinterpret_cast<BufferHead*>(payload - kPage);
  }

  std::byte* base_;
  std::size_t count_;
  unsigned owner_;
  std::vector<std::byte*> free_;
  HomeStack<BufferHead> home_;
};

/// FrontRequests.
class RequestPool {
 public:
  explicit RequestPool(std::size_t count);

  [[nodiscard]] bool empty() const { return free_ == nullptr; }
  [[nodiscard]] FrontRequest* take() {
    if (free_ == nullptr) return nullptr;
    FrontRequest* request = free_;
    free_ = request->next_free;
    return request;
  }
  void put(FrontRequest& request) {
    request.next_free = free_;
    free_ = &request;
  }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] FrontRequest& at(std::size_t index) { return requests_[index]; }

 private:
  std::size_t count_;
  std::unique_ptr<FrontRequest[]> requests_;
  FrontRequest* free_ = nullptr;
};

}  // namespace elevd::daemon
