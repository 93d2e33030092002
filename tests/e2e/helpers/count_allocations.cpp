// SPDX-License-Identifier: Apache-2.0
// count_allocations: preloaded into a program (LD_PRELOAD), counts what it allocates: a 64-bit
// number at the beginning of the file $COUNT_ALLOCATIONS, mapped, so that others read it while the
// program runs.
//
// Counted are the functions of malloc(3), which operator new of libstdc++ calls, in all threads.
// They go on to those of the C library. Not for sanitized programs, which have functions of their
// own.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

// The C library's functions under the names that it keeps for this use.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

constexpr std::size_t kPage = 4096;

std::atomic<std::uint64_t> uncounted{0};
std::atomic<std::atomic<std::uint64_t>*> counter{&uncounted};

void count() { counter.load(std::memory_order_relaxed)->fetch_add(1, std::memory_order_relaxed); }

[[gnu::constructor]] void begin() {
  const char* path = std::getenv("COUNT_ALLOCATIONS");
  if (path == nullptr) return;
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || ftruncate(fd, kPage) != 0) std::abort();
  void* shared = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (shared == MAP_FAILED) std::abort();
  close(fd);
  counter.store(static_cast<std::atomic<std::uint64_t>*>(shared));
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) noexcept {
  count();
  return __libc_malloc(size);
}

void* calloc(std::size_t number, std::size_t size) noexcept {
  count();
  return __libc_calloc(number, size);
}

void* realloc(void* memory, std::size_t size) noexcept {
  count();
  return __libc_realloc(memory, size);
}

void* memalign(std::size_t alignment, std::size_t size) noexcept {
  count();
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  count();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  count();
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"
