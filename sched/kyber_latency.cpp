// SPDX-License-Identifier: Apache-2.0
#include "kyber_latency.hpp"

#include <algorithm>
#include <numeric>

namespace elevd::sched {
namespace {

constexpr unsigned kIoPercent = 90;     ///< of the test for congestion
constexpr unsigned kTotalPercent = 99;  ///< of the scaling
constexpr std::array kMeasured = {KyberDomain::read, KyberDomain::write, KyberDomain::discard};

}  // namespace

unsigned KyberLatency::bucket(Duration latency, std::uint64_t target_ns) {
  if (latency.ns <= 0) return 0;
  const std::uint64_t width = std::max<std::uint64_t>(target_ns / 4, 1);
  const std::uint64_t at = static_cast<std::uint64_t>(latency.ns - 1) / width;
  return static_cast<unsigned>(std::min<std::uint64_t>(at, kBuckets - 1));
}

void KyberLatency::sample(unsigned worker, KyberDomain domain, KyberLatencyKind kind,
                          Duration latency) {
  const unsigned at = bucket(latency, target(domain));
  workers_[worker].counts[index(domain)][index(kind)][at].fetch_add(1, std::memory_order_seq_cst);
}

std::uint64_t KyberLatency::collect(unsigned workers) {
  std::uint64_t moved = 0;
  for (unsigned w = 0; w < workers; ++w) {
    for (unsigned d = 0; d < kKyberMeasured; ++d) {
      for (unsigned k = 0; k < 2; ++k) {
        for (unsigned b = 0; b < kBuckets; ++b) {
          std::atomic<std::uint32_t>& count = workers_[w].counts[d][k][b];
          if (count.load(std::memory_order_seq_cst) == 0) continue;
          const std::uint32_t n = count.exchange(0, std::memory_order_seq_cst);
          sums_[d][k][b] += n;
          moved += n;
        }
      }
    }
  }
  return moved;
}

std::optional<unsigned> KyberLatency::percentile(KyberDomain domain, KyberLatencyKind kind,
                                                 unsigned percent, Instant now, KyberTrace* trace) {
  auto& buckets = sums_[index(domain)][index(kind)];
  const std::uint64_t samples = std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
  if (samples == 0) return std::nullopt;
  std::optional<Instant>& timeout = timeout_[index(domain)];
  if (!timeout) timeout = now + kTimeout;
  if (samples < kSamples && now < *timeout) return std::nullopt;
  timeout.reset();
  std::uint64_t need = (samples * percent + 99) / 100;
  unsigned at = 0;
  while (at < kBuckets - 1 && buckets[at] < need) need -= buckets[at++];
  buckets.fill(0);
  if (trace != nullptr) trace->latency(domain, kind, percent, at, samples);
  return at;
}

/// docs/spec/kyber.md section 5.3. The congestion test of all domains comes before the scaling of
/// any, and takes the timeouts with it.
KyberLatency::Verdict KyberLatency::evaluate(unsigned workers, Instant now, KyberTrace* trace) {
  collect(workers);
  bool congested = false;
  for (const KyberDomain domain : kMeasured) {
    const auto at = percentile(domain, KyberLatencyKind::io, kIoPercent, now, trace);
    congested = congested || (at && *at >= kGoodBuckets);
  }
  Verdict verdict;
  for (const KyberDomain domain : kMeasured) {
    auto at = percentile(domain, KyberLatencyKind::total, kTotalPercent, now, trace);
    std::optional<unsigned>& remembered = remembered_[index(domain)];
    if (congested) {
      if (!at) at = remembered;
      remembered.reset();
    } else if (at) {
      remembered = at;
    }
    if (at && (congested || *at >= kGoodBuckets)) verdict[index(domain)] = at;
  }
  return verdict;
}

std::uint32_t KyberLatency::scaled(std::uint32_t depth, unsigned bucket, std::uint32_t most) {
  return std::clamp((depth * (bucket + 1)) / 4, 1U, most);
}

}  // namespace elevd::sched
