// SPDX-License-Identifier: Apache-2.0
// KyberLatency: what kyber knows of latencies, and what follows from it for its depths.
//
// Owns:       histograms per worker, their sums, targets.
// Thread:     sample by any thread, targets too; evaluate and its parts under the elevator lock.
// Time:       an argument.
// Invariants: (1) what is sampled is moved into the sums once, by the next firing of the timer that
//                 sees it, and stays there until a percentile was taken of it;
//             (2) the evaluation timeout of a domain is shared by both kinds of latency, as in the
//                 kernel: docs/spec/kyber.md section 5.4.
// See also:   docs/spec/kyber.md section 5.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "units.hpp"

namespace elevd::sched {

/// Requests that share a pool of tokens. The first three are measured.
enum class KyberDomain : std::uint8_t { read, write, discard, other };
inline constexpr unsigned kKyberDomains = 4;
inline constexpr unsigned kKyberMeasured = 3;

/// From allocation, or from the hand-over to the driver, to completion.
enum class KyberLatencyKind : std::uint8_t { total, io };

/// The trace events of kyber, for tests; null in production. Called under the elevator lock.
class KyberTrace {
 public:
  virtual ~KyberTrace() = default;
  virtual void latency(KyberDomain domain, KyberLatencyKind kind, unsigned percent, unsigned bucket,
                       std::uint64_t samples) = 0;
  virtual void adjusted(KyberDomain domain, std::uint32_t depth) = 0;
  virtual void throttled(KyberDomain domain) = 0;
};

class KyberLatency {
 public:
  static constexpr unsigned kWorkers = 64;
  static constexpr unsigned kBuckets = 8;
  static constexpr unsigned kGoodBuckets = 4;  ///< those up to the target
  static constexpr std::uint64_t kSamples = 500;
  static constexpr Duration kTimeout{1'000'000'000};

  /// Targets in nanoseconds, 0..2^64-1; discards have theirs for good.
  [[nodiscard]] std::uint64_t target(KyberDomain domain) const {
    return targets_[index(domain)].load(std::memory_order_relaxed);
  }
  /// For what is sampled from now on.
  void set_target(KyberDomain domain, std::uint64_t ns) {
    targets_[index(domain)].store(ns, std::memory_order_relaxed);
  }

  /// Where `latency` lies: a quarter of the target is the width of a bucket, the last one is open.
  [[nodiscard]] static unsigned bucket(Duration latency, std::uint64_t target_ns);

  /// Counts a latency; a negative one (the clocks of two workers) is 0.
  /// REQUIRES: worker < kWorkers, a measured domain.
  void sample(unsigned worker, KyberDomain domain, KyberLatencyKind kind, Duration latency);

  /// One firing of the timer: for each measured domain the bucket that its depth is to be scaled
  /// with, none: it stays. Workers from `workers` on never sampled.
  using Verdict = std::array<std::optional<unsigned>, kKyberMeasured>;
  [[nodiscard]] Verdict evaluate(unsigned workers, Instant now, KyberTrace* trace);

  /// `depth` after a firing that said `bucket`: within 1..most.
  [[nodiscard]] static std::uint32_t scaled(std::uint32_t depth, unsigned bucket,
                                            std::uint32_t most);

  // --- The parts of evaluate, for tests ----------------------------------------------------

  /// Moves what the workers sampled into the sums; returns how many samples there were.
  std::uint64_t collect(unsigned workers);
  /// The bucket in which `percent` of the samples end, and forgets the samples. None: there are too
  /// few, and not for a second yet.
  [[nodiscard]] std::optional<unsigned> percentile(KyberDomain domain, KyberLatencyKind kind,
                                                   unsigned percent, Instant now,
                                                   KyberTrace* trace = nullptr);
  [[nodiscard]] std::optional<unsigned> remembered(KyberDomain domain) const {
    return remembered_[index(domain)];
  }

 private:
  template <class Count>
  using Histograms = std::array<std::array<std::array<Count, kBuckets>, 2>, kKyberMeasured>;
  struct alignas(64) PerWorker {
    Histograms<std::atomic<std::uint32_t>> counts{};
  };

  static constexpr unsigned index(KyberDomain domain) { return static_cast<unsigned>(domain); }
  static constexpr unsigned index(KyberLatencyKind kind) { return static_cast<unsigned>(kind); }

  std::array<std::atomic<std::uint64_t>, kKyberMeasured> targets_{2'000'000, 10'000'000,
                                                                  5'000'000'000};
  std::array<PerWorker, kWorkers> workers_;
  Histograms<std::uint64_t> sums_{};
  std::array<std::optional<Instant>, kKyberMeasured> timeout_;
  std::array<std::optional<unsigned>, kKyberMeasured> remembered_;
};

}  // namespace elevd::sched
