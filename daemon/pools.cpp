// SPDX-License-Identifier: Apache-2.0
#include "pools.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace elevd::daemon {

BufferPool::BufferPool(std::size_t count, unsigned owner) : count_(count), owner_(owner) {
  void* memory = mmap(nullptr, count * kBufferStride, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(), "address space for I/O buffers");
  }
  base_ = static_cast<std::byte*>(memory);
  free_.reserve(count);
  for (std::size_t i = count; i > 0; --i) {
    std::byte* buffer = base_ + (i - 1) * kBufferStride;
    new (buffer) BufferHead{this, nullptr};
    free_.push_back(buffer + kPage);
  }
}

BufferPool::~BufferPool() { munmap(base_, count_ * kBufferStride); }

bool BufferPool::collect_home() {
  BufferHead* head = home_.take_all();
  if (head == nullptr) return false;
  while (head != nullptr) {
    BufferHead* next = head->next_free;
    free_.push_back(reinterpret_cast<std::byte*>(head) + kPage);
    head = next;
  }
  return true;
}

RequestPool::RequestPool(std::size_t count)
    : count_(count), requests_(std::make_unique<FrontRequest[]>(count)) {
  for (std::size_t i = count; i > 0; --i) put(requests_[i - 1]);
}

}  // namespace elevd::daemon
