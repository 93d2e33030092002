// SPDX-License-Identifier: Apache-2.0
// The invariants of docs/spec/kyber.md section 9 with random arrivals, completions, latencies and
// targets, on the elevator alone, which is run only when it asks for it. A failure is replayed with
// ELEVD_SEED.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "random.hpp"
#include "request_pool.hpp"
#include "sched/kyber.hpp"

namespace elevd::sched::test::kyber_properties {
namespace {

using namespace literals;

constexpr std::size_t kRequests = 400;
constexpr unsigned kWorkers = 4;
constexpr std::uint64_t kSectors = 4096;

/// What sections 4.1 and 4.3 say, with plain lists; tokens and depths are those of the elevator.
class Model {
 public:
  explicit Model(const Kyber& kyber) : kyber_(kyber) {}

  void insert(Request& rq) {
    auto& list = lists_[domain(rq)][rq.worker];
    if ((rq.flags & kRqAtHead) != 0) {
      list.push_front(&rq);
    } else {
      list.push_back(&rq);
    }
  }

  [[nodiscard]] bool has_requests(unsigned d) const {
    return !flushed_[d].empty() || std::any_of(lists_[d].begin(), lists_[d].end(),
                                               [](const auto& list) { return !list.empty(); });
  }
  /// A token below the depth is free.
  [[nodiscard]] bool has_tokens(unsigned d) const {
    const std::uint32_t depth = kyber_.pool(static_cast<KyberDomain>(d)).depth();
    std::uint32_t used = 0;
    for (const std::uint64_t token : tokens_[d]) used += token < depth ? 1U : 0U;
    return used < depth;
  }

  Request* dispatch() {
    if (batching_ < Kyber::kBatch[current_]) {
      if (Request* rq = take(current_)) return rq;
    }
    batching_ = 0;
    for (unsigned n = 0; n < kKyberDomains; ++n) {
      current_ = (current_ + 1) % kKyberDomains;
      if (Request* rq = take(current_)) return rq;
    }
    return nullptr;
  }

  void note_token(const Request& rq) {
    auto& tokens = tokens_[domain(rq)];
    CHECK(std::find(tokens.begin(), tokens.end(), rq.elevator_word) == tokens.end());
    CHECK(rq.elevator_word < kyber_.pool(Kyber::domain_of(rq.op)).depth());
    tokens.push_back(rq.elevator_word);
  }
  void drop_token(const Request& rq) {
    auto& tokens = tokens_[domain(rq)];
    tokens.erase(std::find(tokens.begin(), tokens.end(), rq.elevator_word));
  }
  [[nodiscard]] std::size_t tokens(unsigned d) const { return tokens_[d].size(); }
  [[nodiscard]] unsigned current() const { return current_; }
  [[nodiscard]] std::uint32_t batching() const { return batching_; }
  static unsigned domain(const Request& rq) {
    return static_cast<unsigned>(Kyber::domain_of(rq.op));
  }

 private:
  Request* take(unsigned d) {
    if (!has_requests(d) || !has_tokens(d)) return nullptr;
    if (flushed_[d].empty()) {
      for (auto& list : lists_[d]) {
        flushed_[d].insert(flushed_[d].end(), list.begin(), list.end());
        list.clear();
      }
    }
    Request* rq = flushed_[d].front();
    flushed_[d].pop_front();
    ++batching_;
    return rq;
  }

  const Kyber& kyber_;
  std::array<std::array<std::deque<Request*>, kWorkers>, kKyberDomains> lists_;
  std::array<std::deque<Request*>, kKyberDomains> flushed_;
  std::array<std::vector<std::uint64_t>, kKyberDomains> tokens_;
  unsigned current_ = 0;
  std::uint32_t batching_ = 0;
};

class KyberRun {
 public:
  /// `lookups`: some requests had their merge lookup skipped; the order is not modelled then.
  KyberRun(std::uint64_t seed, bool lookups) : random_(seed), lookups_(lookups) {
    limits_.max_sectors = {64};
    kyber_.attach({&limits_, &nomerges_, kWorkers});
  }

  void run(unsigned steps) {
    for (unsigned n = 0; n < steps; ++n) {
      step();
      kyber_.check();
      balance();
    }
    // Invariant 8: nobody runs it but who is asked to.
    while (!out_.empty()) complete();
    CHECK_FALSE(kyber_.has_work());
    CHECK(submitted_ == dispatched_);
    for (unsigned d = 0; d < kKyberDomains; ++d) {
      CHECK(kyber_.pool(static_cast<KyberDomain>(d)).out() == 0);
    }
    // Invariant 7, as far as no firing has taken them: each was sampled twice.
    CHECK(kyber_.latency().collect(kWorkers) == 2 * measured_);
  }
  [[nodiscard]] unsigned changes() const { return changes_; }
  [[nodiscard]] unsigned throttled() const { return throttled_; }

 private:
  void step() {
    now_.ns += static_cast<std::int64_t>(random_(1'000'000));
    switch (random_(8)) {
      case 0:
      case 1:
      case 2:
        insert();
        break;
      case 3:
        merge_bio();
        break;
      case 4:
        if (random_.one_in(8)) retarget();
        if (random_.one_in(12)) fire();
        break;
      default:
        for (std::uint64_t n = 1 + random_(busy_ ? 3 : 12); n != 0 && !out_.empty(); --n) {
          complete();
        }
    }
    if (random_.one_in(200)) busy_ = !busy_;
  }

  /// So that depths move: everything bad, everything good, or as it is.
  void retarget() {
    constexpr std::array<std::uint64_t, 3> kTargets = {0, 2'000'000, 1'000'000'000'000};
    kyber_.latency().set_target(KyberDomain::read, kTargets[random_(3)]);
    kyber_.latency().set_target(KyberDomain::write, kTargets[random_(3)]);
    nomerges_ = random_.one_in(5) ? 2U : 0U;
  }

  /// Invariants 3 and 6.
  void fire() {
    now_ = now_ + 100_ms;
    std::array<std::uint32_t, kKyberDomains> before{};
    for (unsigned d = 0; d < kKyberDomains; ++d) before[d] = depth(d);
    const bool fires = kyber_.timer_at() && *kyber_.timer_at() <= now_;
    kyber_.timer(now_);
    if (fires) measured_ = 0;
    for (unsigned d = 0; d < kKyberDomains; ++d) {
      CHECK(depth(d) >= 1);
      CHECK(depth(d) <= Kyber::kTokens[d]);
      CHECK(depth(d) <= 2 * before[d]);
      CHECK(depth(d) >= std::max(before[d] / 4, 1U));
      if (depth(d) != before[d]) ++changes_;
    }
    CHECK(depth(3) == 16);
    run_queue();
  }
  [[nodiscard]] std::uint32_t depth(unsigned d) const {
    return kyber_.pool(static_cast<KyberDomain>(d)).depth();
  }

  void make(Bio& bio) {
    constexpr std::array kOps = {Op::read,  Op::read,    Op::write,
                                 Op::write, Op::discard, Op::write_zeroes};
    bio.op = kOps[random_(kOps.size())];
    bio.start = Sector{8 * random_(kSectors / 8)};
    bio.length = Sectors{8 * (1 + random_(3))};
    bio.next = nullptr;
    bio.owner = static_cast<std::uint16_t>(random_(kWorkers));
    bio.priority = IoPriority::best_effort(random_.one_in(4) ? 0 : 4);
  }

  void insert() {
    RequestList list;
    for (std::uint64_t n = 1 + random_(busy_ ? 24 : 4); n != 0 && pool_.available() != 0; --n) {
      Request& rq = pool_.take([this](Bio& bio) { make(bio); });
      submitted_.add(*rq.first);
      rq.allocated = now_;
      if (random_.one_in(12)) rq.flags = kRqAtHead | kRqNoMerge;
      if (lookups_ && random_.one_in(3)) rq.flags |= kRqLookupSkipped;
      if (!lookups_) model_.insert(rq);
      list.push_back(rq);
    }
    RequestList merged;
    kyber_.insert(list, merged, now_);
    CHECK(list.empty());
    CHECK((lookups_ || merged.empty()));
    pool_.put_merged(merged);
    run_queue();
  }

  void merge_bio() {
    if (nomerges_ == 2) return;
    auto bio = std::make_unique<Bio>();
    make(*bio);
    RequestList merged;
    const MergeResult kind = kyber_.bio_merge(*bio, merged, now_);
    CHECK(merged.empty());
    if (kind != MergeResult::back && kind != MergeResult::front) return;
    submitted_.add(*bio);
    pool_.keep(std::move(bio));
  }

  /// As a queue with room for everything does it.
  void run_queue() {
    while (kyber_.has_work()) {
      if (!dispatch_one()) break;
    }
  }

  bool dispatch_one() {
    std::array<bool, kKyberDomains> could{};
    if (!lookups_) {
      for (unsigned d = 0; d < kKyberDomains; ++d) {
        could[d] = model_.has_requests(d) && model_.has_tokens(d);
      }
    }
    std::array<std::size_t, kKyberDomains> in_lists{};
    for (unsigned d = 0; d < kKyberDomains; ++d) in_lists[d] = listed(d);
    Request* rq = kyber_.dispatch(now_);
    if (!lookups_) {
      CHECK(rq == model_.dispatch());
      CHECK(static_cast<unsigned>(kyber_.current()) == model_.current());
      CHECK(kyber_.batching() == model_.batching());
    }
    if (rq == nullptr) {
      ++throttled_;
      for (unsigned d = 0; d < kKyberDomains; ++d) CHECK(listed(d) == in_lists[d]);  // invariant 9
      return false;
    }
    model_.note_token(*rq);
    const unsigned served = Model::domain(*rq);
    if (!lookups_) look_at_waits(served, could);
    rq->issued = now_;
    rq->issuing_worker = static_cast<std::uint16_t>(random_(kWorkers));
    out_.push_back(rq);
    dispatched_.add(*rq);
    return true;
  }

  /// Invariants 4 and 5.
  void look_at_waits(unsigned served, const std::array<bool, kKyberDomains>& could) {
    bool others = false;
    for (unsigned d = 0; d < kKyberDomains; ++d) {
      if (d == served || !could[d]) {
        waited_[d] = 0;
        continue;
      }
      others = true;
      CHECK(++waited_[d] <= 16 + 8 + 1 + 1);
    }
    row_ = !others ? 0 : served == last_served_ ? row_ + 1 : 1;
    last_served_ = served;
    CHECK(row_ <= Kyber::kBatch[served]);
  }

  [[nodiscard]] std::size_t listed(unsigned d) const {
    std::size_t n = 0;
    for (unsigned w = 0; w < kWorkers; ++w) {
      n += kyber_.list(w, static_cast<KyberDomain>(d)).size();
    }
    return n;
  }

  void complete() {
    Request& rq = take_random(out_, random_);
    model_.drop_token(rq);
    const bool had_timer = kyber_.timer_at().has_value();
    const bool asked = kyber_.completed(rq, now_);
    if (rq.op != Op::write_zeroes) ++measured_;
    if (!had_timer && rq.op != Op::write_zeroes) {
      CHECK(asked);
      CHECK(kyber_.timer_at() == now_ + 100_ms);
    }
    pool_.put(rq);
    if (asked) run_queue();
  }

  /// Invariant 2, and that nothing is lost on the way.
  void balance() {
    std::size_t inside = out_.size();
    for (unsigned d = 0; d < kKyberDomains; ++d) {
      const auto domain = static_cast<KyberDomain>(d);
      inside += listed(d) + kyber_.flushed(domain).size();
      CHECK(kyber_.pool(domain).out() == model_.tokens(d));
    }
    CHECK(inside + pool_.available() == kRequests);
  }

  Random random_;
  bool lookups_;
  bool busy_ = true;
  Limits limits_;
  std::atomic<unsigned> nomerges_{0};
  RequestPool<kRequests> pool_;
  Kyber kyber_;
  Model model_{kyber_};
  std::vector<Request*> out_;
  Instant now_{1'000'000'000};
  SectorCounts submitted_{kSectors};
  SectorCounts dispatched_{kSectors};
  std::array<unsigned, kKyberDomains> waited_{};
  unsigned last_served_ = 0;
  unsigned row_ = 0;
  std::uint64_t measured_ = 0;  ///< completions that no firing has seen
  unsigned changes_ = 0;
  unsigned throttled_ = 0;
};

}  // namespace

TEST_SUITE("kyber properties") {
  TEST_CASE("random arrivals, completions, latencies and targets") {
    unsigned changes = 0;
    unsigned throttled = 0;
    for (const std::uint64_t seed : seeds(20)) {
      CAPTURE(seed);
      for (const bool lookups : {false, true}) {
        CAPTURE(lookups);
        auto run = std::make_unique<KyberRun>(seed, lookups);
        run->run(10000);
        changes += run->changes();
        throttled += run->throttled();
      }
    }
    MESSAGE("depths changed ", changes, " times, runs ended without a token ", throttled);
    CHECK(changes != 0);
    CHECK(throttled != 0);
  }
}

}  // namespace elevd::sched::test::kyber_properties
