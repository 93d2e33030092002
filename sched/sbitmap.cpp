// SPDX-License-Identifier: Apache-2.0
#include "sbitmap.hpp"

#include <algorithm>
#include <bit>

#include "assertion.hpp"

namespace elevd::sched {
namespace {

constexpr std::uint64_t low_bits(std::uint32_t n) {
  return n >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
}

}  // namespace

unsigned Sbitmap::shift_for(std::uint32_t depth) {
  unsigned shift = 6;
  if (depth >= 4) {
    while ((4U << shift) > depth) --shift;
  }
  return shift;
}

Sbitmap::Sbitmap(std::uint32_t capacity, std::uint32_t depth, unsigned workers)
    : capacity_(capacity), depth_(depth), shift_(shift_for(capacity)), workers_(workers) {
  ELEVD_ASSERT(depth >= 1 && depth <= capacity && workers >= 1);
  const std::uint32_t most_words = (capacity + bits_per_word() - 1) >> shift_;
  words_ = std::make_unique<Word[]>(most_words);
  hints_ = std::make_unique<Hint[]>(workers);
  layout();
}

void Sbitmap::layout() {
  word_count_ = (depth_ + bits_per_word() - 1) >> shift_;
  std::uint32_t left = depth_;
  for (std::uint32_t i = 0; i < word_count_; ++i) {
    words_[i].depth = std::min(left, bits_per_word());
    left -= words_[i].depth;
  }
}

void Sbitmap::set_depth(std::uint32_t depth) {
  ELEVD_ASSERT(depth >= 1 && depth <= capacity_ && busy() == 0);
  const std::uint32_t most_words = (capacity_ + bits_per_word() - 1) >> shift_;
  for (std::uint32_t i = 0; i < most_words; ++i) {
    words_[i].taken.store(0);
    words_[i].cleared.store(0);
  }
  depth_ = depth;
  layout();
  for (unsigned w = 0; w < workers_; ++w) {
    if (hints_[w].bit.load() >= depth) hints_[w].bit.store(0);
  }
}

void Sbitmap::resize(std::uint32_t depth) {
  ELEVD_ASSERT(depth >= 1 && depth <= capacity_);
  depth_ = depth;
  layout();
}

std::uint32_t Sbitmap::shallow_rest(std::uint32_t shallow) const {
  if (shallow >= depth_) return 0;
  std::uint64_t floors = 0;
  for (std::uint32_t i = 0; i < word_count_; ++i) {
    floors += std::uint64_t{words_[i].depth} * shallow / depth_;
  }
  return static_cast<std::uint32_t>(shallow - floors);  // less than word_count_
}

std::uint32_t Sbitmap::word_depth_within(std::uint32_t index, std::uint32_t shallow,
                                         std::uint32_t rest) const {
  const Word& word = words_[index];
  if (shallow >= depth_) return word.depth;
  const std::uint64_t own = std::uint64_t{word.depth} * shallow / depth_;
  return static_cast<std::uint32_t>(own + (index < rest ? 1 : 0));
}

/// Folds the cleared bits of a full word back. True: some position below `allowed` may be free.
bool Sbitmap::fold(Word& word, std::uint32_t allowed) {
  const LockGuard guard(word.fold_lock);
  const std::uint64_t freed = word.cleared.load(std::memory_order_seq_cst);
  if (freed == 0) {
    // Somebody may have folded since the caller looked.
    return (word.taken.load(std::memory_order_seq_cst) & low_bits(allowed)) != low_bits(allowed);
  }
  const std::uint64_t folded = word.cleared.exchange(0, std::memory_order_seq_cst);
  word.taken.fetch_and(~folded, std::memory_order_seq_cst);
  return true;
}

std::int32_t Sbitmap::get_in_word(Word& word, std::uint32_t allowed, std::uint32_t from,
                                  bool wrap) {
  if (allowed == 0) return -1;
  const std::uint64_t mask = low_bits(allowed);
  const bool whole = from == 0 || from >= allowed || wrap;
  for (;;) {
    std::uint64_t taken = word.taken.load(std::memory_order_seq_cst);
    for (;;) {
      const std::uint64_t upper = ~taken & mask & ~low_bits(from < allowed ? from : 0);
      std::uint64_t free = upper;
      if (free == 0 && whole) free = ~taken & mask;
      if (free == 0) break;
      const std::uint64_t bit = free & (~free + 1);
      if (word.taken.compare_exchange_weak(taken, taken | bit, std::memory_order_seq_cst)) {
        return std::countr_zero(bit);
      }
    }
    if (!fold(word, allowed)) return -1;
    if (!whole && ((~word.taken.load(std::memory_order_seq_cst)) & mask & ~low_bits(from)) == 0) {
      return -1;
    }
  }
}

std::int32_t Sbitmap::get(unsigned worker, std::uint32_t shallow) {
  Hint& hint = hints_[worker];
  std::uint32_t at = hint.bit.load(std::memory_order_relaxed);
  if (at >= depth_) at = 0;
  const bool limited = shallow < depth_;
  const std::uint32_t rest = shallow_rest(shallow);
  const bool exact = limited || round_robin_;
  std::uint32_t index = at >> shift_;
  std::uint32_t from = exact ? (at & (bits_per_word() - 1)) : 0;
  // One word more than there are: the first one is looked at again for what lies before the hint.
  for (std::uint32_t n = 0; n <= word_count_; ++n) {
    Word& word = words_[index];
    const std::uint32_t allowed = word_depth_within(index, shallow, rest);
    const std::int32_t bit = get_in_word(word, allowed, from, !round_robin_);
    if (bit >= 0) {
      const std::uint32_t number = (index << shift_) + static_cast<std::uint32_t>(bit);
      if (number == at || round_robin_) {
        hint.bit.store(number + 1 >= depth_ ? 0 : number + 1, std::memory_order_relaxed);
      }
      return static_cast<std::int32_t>(number);
    }
    from = 0;
    if (++index == word_count_) index = 0;
    if (n + 1 == word_count_ && !round_robin_) break;
  }
  hint.bit.store(0, std::memory_order_relaxed);
  return -1;
}

std::uint64_t Sbitmap::get_batch(unsigned worker, unsigned n, std::uint32_t& base) {
  if (round_robin_ || n == 0) return 0;
  std::uint32_t at = hints_[worker].bit.load(std::memory_order_relaxed);
  if (at >= depth_) at = 0;
  std::uint32_t index = at >> shift_;
  for (std::uint32_t i = 0; i < word_count_; ++i) {
    Word& word = words_[index];
    const std::uint64_t mask = low_bits(word.depth);
    do {
      std::uint64_t taken = word.taken.load(std::memory_order_seq_cst);
      for (;;) {
        std::uint64_t free = ~taken & mask;
        if (free == 0) break;
        std::uint64_t wanted = 0;
        for (unsigned k = 0; k < n && free != 0; ++k) {
          wanted |= free & (~free + 1);
          free &= free - 1;
        }
        if (word.taken.compare_exchange_weak(taken, taken | wanted, std::memory_order_seq_cst)) {
          base = index << shift_;
          const std::uint32_t next =
              base + static_cast<std::uint32_t>(64 - std::countl_zero(wanted));
          hints_[worker].bit.store(next >= depth_ ? 0 : next, std::memory_order_relaxed);
          return wanted;
        }
      }
    } while (fold(word, word.depth));
    if (++index == word_count_) index = 0;
  }
  return 0;
}

void Sbitmap::put(std::uint32_t bit, unsigned worker) {
  ELEVD_ASSERT(bit < capacity_);
  Word& word = words_[bit >> shift_];
  const std::uint64_t mask = std::uint64_t{1} << (bit & (bits_per_word() - 1));
  const std::uint64_t before = word.cleared.fetch_or(mask, std::memory_order_seq_cst);
  ELEVD_ASSERT((before & mask) == 0);
  // Round robin is ascending whatever is freed.
  if (!round_robin_) hints_[worker].bit.store(bit, std::memory_order_relaxed);
}

std::uint32_t Sbitmap::busy() const { return busy_within(kUnlimited); }

std::uint32_t Sbitmap::busy_within(std::uint32_t shallow) const {
  int bits = 0;
  for (std::uint32_t i = 0; i < word_count_; ++i) {
    // The cleared mask first: a bit folded in between then counts as busy, never as free twice.
    const std::uint64_t cleared = words_[i].cleared.load(std::memory_order_seq_cst);
    const std::uint64_t taken = words_[i].taken.load(std::memory_order_seq_cst);
    bits += std::popcount(taken & ~cleared & low_bits(shallow_word_depth(i, shallow)));
  }
  return static_cast<std::uint32_t>(bits);
}

std::uint32_t Sbitmap::taken() const {
  int bits = 0;
  for (std::uint32_t first = 0; first < capacity_; first += bits_per_word()) {
    const Word& word = words_[first >> shift_];
    const std::uint64_t cleared = word.cleared.load(std::memory_order_seq_cst);
    bits += std::popcount(word.taken.load(std::memory_order_seq_cst) & ~cleared);
  }
  return static_cast<std::uint32_t>(bits);
}

std::uint32_t Sbitmap::cleared() const {
  int bits = 0;
  for (std::uint32_t i = 0; i < word_count_; ++i) {
    bits += std::popcount(words_[i].cleared.load(std::memory_order_seq_cst));
  }
  return static_cast<std::uint32_t>(bits);
}

bool Sbitmap::is_taken(std::uint32_t bit) const {
  const Word& word = words_[bit >> shift_];
  const std::uint64_t mask = std::uint64_t{1} << (bit & (bits_per_word() - 1));
  const std::uint64_t cleared = word.cleared.load(std::memory_order_seq_cst);
  return (word.taken.load(std::memory_order_seq_cst) & ~cleared & mask) != 0;
}

std::uint32_t Sbitmap::hint(unsigned worker) const {
  return hints_[worker].bit.load(std::memory_order_relaxed);
}

}  // namespace elevd::sched
