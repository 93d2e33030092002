// SPDX-License-Identifier: Apache-2.0
// Kyber: the elevator that does not sort, but lets so many requests of a kind to the device that
// its latencies stay within their targets.
//
// Owns:       token pools, histograms, lists per worker; links requests that the queue keeps alive.
// Thread:     as Elevator says. limit, has_candidates, completed and timer_at run without the lock.
// Time:       `now` of each call.
// Invariants: (1) a request is in the list of its worker and domain, then in the flushed list of
// its
//                 domain, then out with a token; the bit of a worker is set exactly if its list is
//                 not empty;
//             (2) without a token nothing leaves the lists of the workers: there it can be merged;
//             (3) with the timer set, every sample is seen by a firing to come.
// See also:   docs/spec/kyber.md, which the functions follow section by section.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "elevator.hpp"
#include "kyber_latency.hpp"
#include "token_pool.hpp"

namespace elevd::sched {

class Kyber final : public Elevator {
 public:
  static constexpr std::string_view kName = "kyber";
  static constexpr std::array<std::uint32_t, kKyberDomains> kTokens = {256, 128, 64, 16};
  static constexpr std::array<std::uint32_t, kKyberDomains> kBatch = {16, 8, 1, 1};
  static constexpr Duration kTimerDelay{100'000'000};

  ~Kyber() override;  ///< asserts: nothing queued, nothing at the device

  [[nodiscard]] std::string_view name() const override { return kName; }
  void insert(RequestList& list, RequestList& merged, Instant now) override;
  Request* dispatch(Instant now) override;
  [[nodiscard]] bool has_work() const override;
  [[nodiscard]] bool has_candidates() const override;
  MergeResult bio_merge(Bio& bio, RequestList& merged, Instant now) override;
  [[nodiscard]] bool allow_merge(const Request&, const Bio&) const override { return true; }
  [[nodiscard]] bool completes_without_lock() const override { return true; }
  [[nodiscard]] bool completed(Request& rq, Instant now) override;
  [[nodiscard]] DepthLimit limit(const Bio& bio) const override;
  [[nodiscard]] std::uint32_t default_async_depth(std::uint32_t nr_requests) const override;
  [[nodiscard]] std::uint32_t depth_updated(std::uint32_t nr_requests,
                                            std::uint32_t async_depth) override;
  [[nodiscard]] std::optional<Instant> wake_at() const override { return std::nullopt; }
  [[nodiscard]] std::optional<Instant> timer_at() const override;
  void timer(Instant now) override;

  /// The tunables are the targets in it.
  [[nodiscard]] KyberLatency& latency() { return latency_; }

  // --- For the debug tree and tests --------------------------------------------------------

  [[nodiscard]] static KyberDomain domain_of(Op op);
  [[nodiscard]] const TokenPool& pool(KyberDomain domain) const { return pools_[index(domain)]; }
  /// What was taken out of the lists of the workers and has no token yet.
  [[nodiscard]] const RequestList& flushed(KyberDomain domain) const {
    return flushed_[index(domain)];
  }
  /// The list of a worker. REQUIRES: worker < KyberLatency::kWorkers.
  [[nodiscard]] const RequestList& list(unsigned worker, KyberDomain domain) const {
    return lists_[index(domain)][worker];
  }
  [[nodiscard]] KyberDomain current() const { return static_cast<KyberDomain>(current_); }
  [[nodiscard]] std::uint32_t batching() const { return batching_; }
  void set_trace(KyberTrace* trace) { trace_ = trace; }
  /// Ends the program unless the invariants hold; for tests, it looks at everything.
  void check() const;

 private:
  static constexpr unsigned kSearch = 8;  ///< entries that a bio is tried against
  static constexpr std::int64_t kUnset = std::numeric_limits<std::int64_t>::max();

  static constexpr unsigned index(KyberDomain domain) { return static_cast<unsigned>(domain); }

  void insert_one(Request& rq, RequestList& merged);
  [[nodiscard]] bool late_bio_merge(RequestList& list, Request& rq, RequestList& merged);
  [[nodiscard]] bool give_back(Request& rq);
  [[nodiscard]] Request* take(unsigned domain);
  void flush_lists(unsigned domain);
  [[nodiscard]] bool set_timer(Instant due);

  std::array<TokenPool, kKyberDomains> pools_{TokenPool(kTokens[0]), TokenPool(kTokens[1]),
                                              TokenPool(kTokens[2]), TokenPool(kTokens[3])};
  std::array<std::array<RequestList, KyberLatency::kWorkers>, kKyberDomains> lists_;
  std::array<RequestList, kKyberDomains> flushed_;
  /// A bit per worker with requests; written under the lock.
  std::array<std::atomic<std::uint64_t>, kKyberDomains> pending_{};
  unsigned current_ = 0;  ///< the domain that the batch is of
  std::uint32_t batching_ = 0;
  KyberLatency latency_;
  std::atomic<std::int64_t> timer_ns_{kUnset};
  std::atomic<std::uint32_t> shallow_{Sbitmap::kUnlimited};
  KyberTrace* trace_ = nullptr;
};

}  // namespace elevd::sched
