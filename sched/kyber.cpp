// SPDX-License-Identifier: Apache-2.0
// Insertion, merging, dispatch and completion of Kyber. Latencies: kyber_latency.cpp.
#include "kyber.hpp"

#include <algorithm>
#include <bit>

#include "assertion.hpp"

namespace elevd::sched {
namespace {

constexpr std::uint64_t bit(unsigned worker) { return std::uint64_t{1} << worker; }

}  // namespace

Kyber::~Kyber() { ELEVD_ASSERT(!has_work()); }

KyberDomain Kyber::domain_of(Op op) {
  switch (op) {
    case Op::read:
      return KyberDomain::read;
    case Op::write:
      return KyberDomain::write;
    case Op::discard:
      return KyberDomain::discard;
    default:
      return KyberDomain::other;
  }
}

// --- Insertion (section 4.1) ------------------------------------------------------------------

void Kyber::insert(RequestList& list, RequestList& merged, Instant) {
  while (!list.empty()) {
    Request& rq = list.front();
    list.pop_front();
    insert_one(rq, merged);
  }
}

void Kyber::insert_one(Request& rq, RequestList& merged) {
  static_cast<void>(give_back(rq));  // who inserts runs the queue anyway
  const unsigned domain = index(domain_of(rq.op));
  RequestList& list = lists_[domain][rq.worker];
  const bool at_head = (rq.flags & kRqAtHead) != 0;
  if ((rq.flags & kRqLookupSkipped) != 0 && !at_head && nomerges() != 2 &&
      late_bio_merge(list, rq, merged)) {
    return;
  }
  if (at_head) {
    list.push_front(rq);
  } else {
    list.push_back(rq);
  }
  pending_[domain].fetch_or(bit(rq.worker), std::memory_order_seq_cst);
}

// --- Merging (section 4.2) --------------------------------------------------------------------

bool Kyber::has_candidates() const {
  return std::any_of(pending_.begin(), pending_.end(), [](const auto& workers) {
    return workers.load(std::memory_order_seq_cst) != 0;
  });
}

/// The newest entries of the worker's list, backwards; an adjacent one that fails a limit ends it.
MergeResult Kyber::bio_merge(Bio& bio, RequestList&, Instant) {
  RequestList& list = lists_[index(domain_of(bio.op))][bio.owner];
  unsigned looked = 0;
  for (auto it = list.rbegin(); it != list.rend() && looked < kSearch; ++it, ++looked) {
    const MergeResult kind = try_merge(limits(), *it, bio);
    if (kind != MergeResult::none) return kind;
  }
  return MergeResult::none;
}

/// The lookup of bio_merge for a request whose bio had none, because the lock was contended: the
/// same tests in the same order. True: `rq` is in the list now, or in a request that is.
bool Kyber::late_bio_merge(RequestList& list, Request& rq, RequestList& merged) {
  unsigned looked = 0;
  for (auto it = list.rbegin(); it != list.rend() && looked < kSearch; ++it, ++looked) {
    Request& queued = *it;
    const RequestFlags flags = rq.flags;
    const RequestFlags queued_flags = queued.flags;
    if (try_merge_requests(limits(), queued, rq)) {
      merged.push_back(rq);
      return true;
    }
    if (queued.flags != queued_flags) return false;  // too large
    if (try_merge_requests(limits(), rq, queued)) {
      list.insert(list.iterator_to(queued), rq);
      list.erase(list.iterator_to(queued));
      merged.push_back(queued);
      return true;
    }
    if (rq.flags != flags) {
      // As for a bio, it is the queued one that takes nobody any more.
      rq.flags = flags;
      queued.flags |= kRqNoMerge;
      return false;
    }
  }
  return false;
}

// --- Dispatch (section 4.3) -------------------------------------------------------------------

bool Kyber::has_work() const {
  return has_candidates() || std::any_of(flushed_.begin(), flushed_.end(),
                                         [](const RequestList& list) { return !list.empty(); });
}

Request* Kyber::dispatch(Instant) {
  if (batching_ < kBatch[current_]) {
    if (Request* rq = take(current_)) return rq;
  }
  batching_ = 0;
  for (unsigned n = 0; n < kKyberDomains; ++n) {
    current_ = (current_ + 1) % kKyberDomains;
    if (Request* rq = take(current_)) return rq;
  }
  return nullptr;
}

/// The token first: without one the requests stay where bios can join them.
Request* Kyber::take(unsigned domain) {
  RequestList& flushed = flushed_[domain];
  if (flushed.empty() && pending_[domain].load(std::memory_order_relaxed) == 0) return nullptr;
  const std::int32_t token = pools_[domain].get();
  if (token < 0) {
    if (trace_ != nullptr) trace_->throttled(static_cast<KyberDomain>(domain));
    return nullptr;
  }
  if (flushed.empty()) flush_lists(domain);
  Request& rq = flushed.front();
  flushed.pop_front();
  rq.elevator_data = &pools_[domain];
  rq.elevator_word = static_cast<std::uint64_t>(token);
  ++batching_;
  return &rq;
}

/// All lists of the domain, in the order of the workers.
void Kyber::flush_lists(unsigned domain) {
  std::uint64_t pending = pending_[domain].exchange(0, std::memory_order_seq_cst);
  for (; pending != 0; pending &= pending - 1) {
    RequestList& list = lists_[domain][static_cast<unsigned>(std::countr_zero(pending))];
    flushed_[domain].splice(flushed_[domain].end(), list);
  }
}

// --- Completion (sections 4.4 and 5.1) --------------------------------------------------------

/// The token of `rq`, if it has one. True: somebody waits for it.
bool Kyber::give_back(Request& rq) {
  if (rq.elevator_data == nullptr) return false;
  auto& pool = *static_cast<TokenPool*>(rq.elevator_data);
  rq.elevator_data = nullptr;
  return pool.put(static_cast<std::uint32_t>(rq.elevator_word));
}

/// Without the lock. The sample before the timer: who sees the timer set may count on a firing that
/// sees the sample.
bool Kyber::completed(Request& rq, Instant now) {
  if (rq.elevator_data == nullptr) return false;
  bool timer_set = false;
  const KyberDomain domain = domain_of(rq.op);
  if (domain != KyberDomain::other) {
    latency_.sample(rq.issuing_worker, domain, KyberLatencyKind::total, now - rq.allocated);
    latency_.sample(rq.issuing_worker, domain, KyberLatencyKind::io, now - rq.issued);
    timer_set = set_timer(now + kTimerDelay);
  }
  const bool awaited = give_back(rq);
  return awaited || timer_set;
}

// --- The timer (section 5.3) ------------------------------------------------------------------

/// True: it was not set, or for later.
bool Kyber::set_timer(Instant due) {
  std::int64_t set = timer_ns_.load(std::memory_order_seq_cst);
  while (due.ns < set) {
    if (timer_ns_.compare_exchange_weak(set, due.ns, std::memory_order_seq_cst)) return true;
  }
  return false;
}

std::optional<Instant> Kyber::timer_at() const {
  const std::int64_t set = timer_ns_.load(std::memory_order_seq_cst);
  return set == kUnset ? std::nullopt : std::optional(Instant{set});
}

void Kyber::timer(Instant now) {
  const std::optional<Instant> due = timer_at();
  if (!due || now < *due) return;
  timer_ns_.store(kUnset, std::memory_order_seq_cst);
  const KyberLatency::Verdict verdict = latency_.evaluate(workers(), now, trace_);
  for (unsigned domain = 0; domain < kKyberMeasured; ++domain) {
    if (!verdict[domain]) continue;
    TokenPool& pool = pools_[domain];
    const std::uint32_t depth = KyberLatency::scaled(pool.depth(), *verdict[domain], pool.most());
    if (depth == pool.depth()) continue;
    pool.set_depth(depth);
    if (trace_ != nullptr) trace_->adjusted(static_cast<KyberDomain>(domain), depth);
  }
}

// --- Depth (section 6) ------------------------------------------------------------------------

DepthLimit Kyber::limit(const Bio& bio) const {
  const std::uint32_t shallow = shallow_.load(std::memory_order_relaxed);
  if (bio.is_sync_read() || shallow == Sbitmap::kUnlimited) return {};
  return {DepthClass::async, shallow};
}

std::uint32_t Kyber::default_async_depth(std::uint32_t nr_requests) const {
  return std::max(nr_requests * 75 / 100, 1U);
}

std::uint32_t Kyber::depth_updated(std::uint32_t nr_requests, std::uint32_t async_depth) {
  shallow_.store(async_depth < nr_requests ? async_depth : Sbitmap::kUnlimited,
                 std::memory_order_relaxed);
  return async_depth;
}

// --- Invariants -------------------------------------------------------------------------------

void Kyber::check() const {
  for (unsigned d = 0; d < kKyberDomains; ++d) {
    const auto domain = static_cast<KyberDomain>(d);
    const auto of_this = [&](const RequestList& list) {
      return std::all_of(list.begin(), list.end(), [&](const Request& rq) {
        return domain_of(rq.op) == domain && rq.elevator_data == nullptr;
      });
    };
    ELEVD_ASSERT(of_this(flushed_[d]));
    for (unsigned worker = 0; worker < KyberLatency::kWorkers; ++worker) {
      ELEVD_ASSERT(of_this(lists_[d][worker]));
      ELEVD_ASSERT(lists_[d][worker].empty() == ((pending_[d].load() & bit(worker)) == 0));
      for (const Request& rq : lists_[d][worker]) ELEVD_ASSERT(rq.worker == worker);
    }
    const TokenPool& pool = pools_[d];
    ELEVD_ASSERT(pool.most() == kTokens[d] && pool.out() <= pool.most());
    ELEVD_ASSERT(pool.depth() >= 1 && pool.depth() <= pool.most());
  }
  ELEVD_ASSERT(pool(KyberDomain::other).depth() == kTokens[index(KyberDomain::other)]);
  ELEVD_ASSERT(batching_ <= kBatch[current_]);
}

}  // namespace elevd::sched
