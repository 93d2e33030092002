// SPDX-License-Identifier: Apache-2.0
// Sbitmap: a bitmap of tags spread over words, so that CPUs seldom meet in one.
//
// Owns:       its words and the allocation hints.
// Thread:     get and put lock free from any thread (the hint of a worker by that worker, or by
//             whoever frees what it allocated); set_depth while nobody uses the map, resize while
//             nobody takes.
// Invariants: (1) at most depth() bits are taken, but after a resize; (2) a freed bit is found
// again by the next get
//             that looks at its word: freeing is lazy, the cleared mask is folded back under the
//             word's own lock, so nobody fails beside a bit that is being folded.
// See also:   docs/spec/tags-and-depth.md section 3.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "lock.hpp"

namespace elevd::sched {

class Sbitmap {
 public:
  static constexpr std::uint32_t kUnlimited = 0xffffffffU;

  /// REQUIRES: depth >= 1, workers >= 1. `capacity` (>= depth) is what set_depth may grow to; the
  /// word size is fixed by `capacity`.
  Sbitmap(std::uint32_t capacity, std::uint32_t depth, unsigned workers);

  /// Word size as a power of two: starts at 6, less while four words would not be filled.
  [[nodiscard]] static unsigned shift_for(std::uint32_t depth);

  /// Takes a bit for `worker`; -1 when none is free among the first positions that a shallow depth
  /// allows (kUnlimited: all).
  [[nodiscard]] std::int32_t get(unsigned worker, std::uint32_t shallow = kUnlimited);

  /// Takes up to `n` bits of one word at once; returns their mask and sets `base` to the number of
  /// bit 0 of the mask. 0: none free.
  [[nodiscard]] std::uint64_t get_batch(unsigned worker, unsigned n, std::uint32_t& base);

  /// Frees `bit`; it becomes the hint of `worker`, which allocated it (not with round robin).
  /// Sequentially consistent.
  void put(std::uint32_t bit, unsigned worker);

  /// Changes the depth; the word size stays. REQUIRES: depth <= capacity, nobody uses the map.
  void set_depth(std::uint32_t depth);

  /// Changes the depth while the map is used: what is taken stays so until it is freed, beyond the
  /// new depth too. REQUIRES: depth <= capacity; no get meanwhile, put may run.
  void resize(std::uint32_t depth);

  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint32_t bits_per_word() const { return 1U << shift_; }
  [[nodiscard]] std::uint32_t word_count() const { return word_count_; }
  /// Bits taken and not freed, a snapshot.
  [[nodiscard]] std::uint32_t busy() const;
  /// The same, with what is still taken beyond depth() after a resize.
  [[nodiscard]] std::uint32_t taken() const;
  /// Bits taken among the first positions that `shallow` allows, a snapshot.
  [[nodiscard]] std::uint32_t busy_within(std::uint32_t shallow) const;
  /// Bits freed and not yet folded back, a snapshot.
  [[nodiscard]] std::uint32_t cleared() const;
  [[nodiscard]] bool is_taken(std::uint32_t bit) const;
  [[nodiscard]] std::uint32_t hint(unsigned worker) const;
  /// Positions of word `index` that a shallow depth allows; their sum over all words is `shallow`.
  [[nodiscard]] std::uint32_t shallow_word_depth(std::uint32_t index, std::uint32_t shallow) const {
    return word_depth_within(index, shallow, shallow_rest(shallow));
  }
  /// Strict ascending order with wrap instead of first free. REQUIRES: nobody uses the map.
  void set_round_robin(bool on) { round_robin_ = on; }
  [[nodiscard]] bool round_robin() const { return round_robin_; }
  [[nodiscard]] unsigned workers() const { return workers_; }

 private:
  struct alignas(64) Word {
    std::atomic<std::uint64_t> taken{0};
    std::atomic<std::uint64_t> cleared{0};
    std::uint32_t depth = 0;
    Lock fold_lock;
  };
  struct alignas(64) Hint {
    std::atomic<std::uint32_t> bit{0};
  };

  [[nodiscard]] std::int32_t get_in_word(Word& word, std::uint32_t allowed, std::uint32_t from,
                                         bool wrap);
  [[nodiscard]] std::uint32_t shallow_rest(std::uint32_t shallow) const;
  [[nodiscard]] std::uint32_t word_depth_within(std::uint32_t index, std::uint32_t shallow,
                                                std::uint32_t rest) const;
  [[nodiscard]] bool fold(Word& word, std::uint32_t allowed);
  void layout();

  std::uint32_t capacity_;
  std::uint32_t depth_;
  unsigned shift_;
  std::uint32_t word_count_ = 0;
  unsigned workers_;
  bool round_robin_ = false;
  std::unique_ptr<Word[]> words_;
  std::unique_ptr<Hint[]> hints_;
};

}  // namespace elevd::sched
