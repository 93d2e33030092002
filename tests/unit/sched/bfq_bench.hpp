// SPDX-License-Identifier: Apache-2.0
// BfqBench: the elevator bfq alone, with requests of named issuers and a clock.
//
// Owns:       the requests; what is left is served and completed at the end.
// Time:       `now`, moved by the test.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "request_pool.hpp"
#include "sched/bfq.hpp"

namespace elevd::sched::test {

struct BfqBench {
  struct Item {
    std::uint64_t issuer = 1;
    Op op = Op::read;
    std::uint64_t start = 0;
    std::uint64_t length = 8;
    IoPriority priority = {};
    bool sync = true;
    RequestFlags flags = 0;
    GroupId group = kRootGroup;
  };

  Limits limits;
  std::atomic<unsigned> nomerges{2};
  Groups groups;
  GroupWeights weights;
  std::deque<Bio> bios;
  std::deque<Request> requests;
  std::vector<Request*> out;  ///< at the device
  Bfq elevator;
  Instant now{1'000'000'000};

  explicit BfqBench(bool rotational = false) {
    limits.rotational = rotational;
    elevator.attach({&limits, &nomerges, 1, &groups, &weights});
    // Raising is tested by itself.
    BfqTunables tunables;
    tunables.low_latency = false;
    elevator.set_tunables(tunables);
    static_cast<void>(elevator.depth_updated(256, 192));
    // Issuers of a test come at the same time, and are to be told apart.
    elevator.join_twins(false);
  }
  ~BfqBench() {
    for (unsigned tries = 0; elevator.has_work() || !out.empty();) {
      if (dispatch() != nullptr) continue;
      if (++tries > 100'000) std::abort();
      if (out.empty()) now.ns += 20'000'000;
      complete_all();
    }
  }

  template <class Change>
  void tune(Change change) {
    BfqTunables tunables = elevator.tunables();
    change(tunables);
    elevator.set_tunables(tunables);
  }
  void fill(Bio& bio, const Item& item) {
    bio.op = item.op;
    bio.start = {item.start};
    bio.length = {item.length};
    bio.issuer = item.issuer;
    bio.group = item.group;
    bio.priority = item.priority;
    bio.flags = item.sync ? kBioSync : BioFlags{0};
  }
  Request& make(const Item& item) {
    Bio& bio = bios.emplace_back();
    fill(bio, item);
    Request& rq = requests.emplace_back();
    fill_request(rq, bio);
    rq.flags = item.flags;
    return rq;
  }
  /// The group at `path`, with that weight.
  GroupId group(const std::string& path, std::uint32_t weight = GroupWeights::kDefault) {
    const GroupId id = groups.id(path);
    weights.set(id, weight);
    elevator.group_weights_changed();
    return id;
  }
  Request& add(const Item& item) {
    Request& rq = make(item);
    insert(rq);
    return rq;
  }
  void insert(Request& rq) {
    RequestList list;
    RequestList merged;
    list.push_back(rq);
    elevator.insert(list, merged, now);
    merged.clear();
    elevator.check();
  }
  /// Tries to make a bio part of what is queued.
  MergeResult merge_bio(const Item& item) {
    Bio& bio = bios.emplace_back();
    RequestList merged;
    fill(bio, item);
    return elevator.bio_merge(bio, merged, now);
  }
  Request* dispatch() {
    Request* const rq = elevator.dispatch(now);
    elevator.check();
    if (rq != nullptr) out.push_back(rq);
    return rq;
  }
  /// The issuer of what is dispatched, 0: nothing.
  std::uint64_t dispatch_issuer() {
    const Request* const rq = dispatch();
    return rq == nullptr ? 0 : rq->issuer;
  }
  /// Where what is dispatched begins, or "-".
  std::string dispatch_place() {
    const Request* const rq = dispatch();
    return rq == nullptr ? "-" : std::to_string(rq->start.value);
  }
  bool complete(Request& rq) {
    out.erase(std::find(out.begin(), out.end(), &rq));
    const bool run = elevator.completed(rq, now);
    elevator.check();
    return run;
  }
  bool complete_all() {
    bool run = false;
    while (!out.empty()) run = complete(*out.front()) || run;
    return run;
  }
  /// Serves something, however long the elevator waits first.
  Request& dispatch_late() {
    for (unsigned tries = 0; tries < 1000; ++tries) {
      if (Request* const rq = dispatch()) return *rq;
      advance_us(1000);
    }
    throw std::runtime_error("nothing is dispatched");
  }
  void advance_us(std::int64_t us) { now.ns += us * 1000; }
  const BfqQueue& queue(std::uint64_t issuer) { return *elevator.queue_of(issuer); }
  std::uint64_t expired(BfqReason reason) const {
    return elevator.counts().expired[static_cast<unsigned>(reason)];
  }
};

}  // namespace elevd::sched::test
