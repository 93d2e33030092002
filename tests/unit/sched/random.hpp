// SPDX-License-Identifier: Apache-2.0
// Random: a small generator whose numbers are the same everywhere, and the seeds of a run.
//
// Fixed seeds 1..N are always tried; ELEVD_SEED=S in the environment tries S alone, which is how a
// failure is replayed; ELEVD_SEEDS=N tries more; ELEVD_TEST_SHORT, as tests/run sets it where a
// sanitizer is at work, tries half.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace elevd::sched::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 1) {}
  /// 0..below-1
  std::uint64_t operator()(std::uint64_t below) {
    state_ ^= state_ >> 12U;
    state_ ^= state_ << 25U;
    state_ ^= state_ >> 27U;
    return ((state_ * 0x2545f4914f6cdd1dU) >> 33U) % below;
  }
  bool one_in(std::uint64_t n) { return (*this)(n) == 0; }

 private:
  std::uint64_t state_;
};

inline std::vector<std::uint64_t> seeds(std::uint64_t usual) {
  if (const char* one = std::getenv("ELEVD_SEED")) return {std::strtoull(one, nullptr, 10)};
  const char* many = std::getenv("ELEVD_SEEDS");
  if (many != nullptr) usual = std::strtoull(many, nullptr, 10);
  if (many == nullptr && std::getenv("ELEVD_TEST_SHORT") != nullptr) usual = (usual + 1) / 2;
  std::vector<std::uint64_t> all;
  for (std::uint64_t seed = 1; seed <= usual; ++seed) all.push_back(seed);
  return all;
}

}  // namespace elevd::sched::test
