// SPDX-License-Identifier: Apache-2.0
// RequestPool: requests for an elevator alone, their bios, and what became of every sector.
//
// Owns:       requests and bios. Who takes a request puts it back.
// Thread:     one.
// Time:       none.
// Invariants: a request is free, or was taken and not put back; the last one put back is taken
//             first, so that a seed gives the same run everywhere.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sched/bio.hpp"
#include "sched/request.hpp"

namespace elevd::sched::test {

/// Makes `rq` the request of `bio` alone, as the queue would have.
inline void fill_request(Request& rq, Bio& bio) {
  rq.first = rq.last = &bio;
  rq.op = bio.op;
  rq.start = bio.start;
  rq.length = bio.length;
  rq.segment_count = 1;
  rq.priority = bio.priority;
  rq.issuer = bio.issuer;
  rq.group = bio.group;
  rq.bio_flags = bio.flags;
  rq.worker = bio.owner;
  rq.flags = 0;
  rq.elevator_data = nullptr;
}

/// How often each sector was read, written and so on.
class SectorCounts {
 public:
  /// Bios begin before `sectors`, and are at most kLongest long.
  explicit SectorCounts(std::uint64_t sectors)
      : each_(sectors + kLongest), counts_(kOps * static_cast<std::size_t>(each_)) {}

  void add(const Bio& bio) {
    const std::size_t at = static_cast<std::size_t>(bio.op) * each_ + bio.start.value;
    for (std::uint64_t n = 0; n < bio.length.value; ++n) ++counts_[at + n];
  }
  /// Adds all of a request, whose bios have to follow each other and to belong together.
  void add(const Request& rq) {
    Sector at = rq.start;
    for (const Bio* bio = rq.first; bio != nullptr; bio = bio->next) {
      CHECK(bio->start == at);
      CHECK(bio->op == rq.op);
      CHECK(bio->owner == rq.worker);
      CHECK(bio->priority == rq.priority);
      at = bio->end();
      add(*bio);
    }
    CHECK(at == rq.end());
  }
  friend bool operator==(const SectorCounts&, const SectorCounts&) = default;

 private:
  static constexpr std::uint64_t kLongest = 64;
  std::uint64_t each_;
  std::vector<std::uint32_t> counts_;
};

template <std::size_t kCount>
class RequestPool {
 public:
  RequestPool() {
    for (std::size_t n = 0; n < kCount; ++n) free_.push_back(n);
  }

  [[nodiscard]] std::size_t available() const { return free_.size(); }
  [[nodiscard]] const std::array<Request, kCount>& requests() const { return requests_; }
  [[nodiscard]] std::size_t index_of(const Request& rq) const {
    return static_cast<std::size_t>(&rq - requests_.data());
  }

  void keep(std::unique_ptr<Bio> bio) { bios_.push_back(std::move(bio)); }
  /// A request of a bio that `make` fills. REQUIRES: available() != 0.
  template <class Make>
  Request& take(Make&& make) {
    Request& rq = requests_[free_.back()];
    free_.pop_back();
    Bio& bio = *bios_.emplace_back(std::make_unique<Bio>());
    make(bio);
    fill_request(rq, bio);
    return rq;
  }
  void put(const Request& rq) { free_.push_back(index_of(rq)); }
  /// Puts those back that were merged into others.
  void put_merged(RequestList& merged) {
    while (!merged.empty()) {
      Request& rq = merged.front();
      merged.pop_front();
      CHECK(rq.first == nullptr);
      put(rq);
    }
  }

 private:
  std::array<Request, kCount> requests_;
  std::vector<std::unique_ptr<Bio>> bios_;
  std::vector<std::size_t> free_;
};

/// Takes a random element out of `list`. REQUIRES: it is not empty.
template <class Random>
Request& take_random(std::vector<Request*>& list, Random& random) {
  const std::size_t index = random(list.size());
  Request& rq = *list[index];
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(index));
  return rq;
}

}  // namespace elevd::sched::test
