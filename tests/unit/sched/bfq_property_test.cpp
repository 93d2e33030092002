// SPDX-License-Identifier: Apache-2.0
// The invariants of docs/spec/bfq.md section 19 with random arrivals, completions and tunables: of
// the service tree by itself, and of the elevator by itself. A failure is replayed with ELEVD_SEED.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bfq_bench.hpp"
#include "random.hpp"

using namespace elevd::sched;
using elevd::sched::test::BfqBench;
using elevd::sched::test::Random;
using elevd::sched::test::seeds;

namespace {

/// I1 to I7: entities that come, are served and go at random.
class TreeModel {
 public:
  explicit TreeModel(std::uint64_t seed) : random_(seed), entities_(2 + random_(40)) {
    for (BfqEntity& entity : entities_) {
      entity.weight = entity.wanted_weight = static_cast<std::uint32_t>(1 + random_(1000));
    }
  }
  ~TreeModel() {
    for (BfqEntity& entity : entities_) {
      if (entity.tree != nullptr) tree_.remove(entity);
    }
    CHECK(tree_.weight_sum() == 0);
  }

  void run(unsigned steps) {
    for (unsigned n = 0; n < steps; ++n) {
      const std::uint64_t before = tree_.vtime();
      step();
      CHECK(!bfq_later(before, tree_.vtime()));  // I2
      tree_.check(nullptr);                      // I1, I3
      count_depth();
    }
  }

 private:
  void step() {
    BfqEntity& entity = entities_[random_(entities_.size())];
    switch (random_(5)) {
      case 0:
      case 1:
        if (entity.place == BfqEntity::Place::active) return change_budget(entity);
        entity.service = 0;
        entity.budget = 1 + random_(20000);
        tree_.activate(entity, random_.one_in(3));
        CHECK(entity.finish - entity.start == bfq_delta(entity.budget, entity.weight));  // I5
        break;
      case 2:
        if (entity.place != BfqEntity::Place::active || !random_.one_in(3)) return;
        tree_.deactivate(entity);
        break;
      default:
        serve();
    }
  }

  void change_budget(BfqEntity& entity) {
    entity.budget += random_(1000);
    if (random_.one_in(4)) {
      entity.wanted_weight = static_cast<std::uint32_t>(1 + random_(1000));
    }
    tree_.reposition(entity);
  }

  void serve() {
    if (!tree_.has_active()) return;
    BfqEntity* const chosen = tree_.choose();
    REQUIRE(chosen != nullptr);
    CHECK(!bfq_later(chosen->start, tree_.vtime()));  // I4
    for (const BfqEntity* e = tree_.active().first(); e != chosen; e = tree_.active().next(*e)) {
      CHECK(bfq_later(e->start, tree_.vtime()));
    }
    tree_.take(*chosen);
    tree_.check(chosen);
    while (chosen->service < chosen->budget && !random_.one_in(20)) {
      tree_.serve(*chosen, std::min(chosen->left_of_budget(), 1 + random_(2560)));
    }
    if (random_.one_in(4)) {
      tree_.deactivate(*chosen);
    } else {
      chosen->budget = std::max<std::uint64_t>(1 + random_(20000), 1);
      tree_.requeue(*chosen);
    }
    chosen->service = 0;
  }

  void count_depth() {
    unsigned count = 0;
    for (const BfqEntity* e = tree_.active().first(); e != nullptr; e = tree_.active().next(*e)) {
      ++count;
    }
    CHECK(tree_.active().depth() <= 2 * std::log2(count + 1) + 0.001);
  }

  Random random_;
  BfqTree tree_;
  std::vector<BfqEntity> entities_;
};

/// I6: all backlogged from a common start, constant weights, slots that end early.
void check_bounds(std::uint64_t seed) {
  Random random(seed);
  const std::size_t count = 2 + random(8);
  BfqTree tree;
  std::vector<BfqEntity> entities(count);
  std::vector<double> served(count);
  std::vector<double> most(count);
  double weights = 0;
  double largest = 0;
  for (std::size_t n = 0; n < count; ++n) {
    entities[n].weight = entities[n].wanted_weight = static_cast<std::uint32_t>(1 + random(100));
    most[n] = static_cast<double>(512 + random(16000));
    entities[n].budget = static_cast<std::uint64_t>(most[n]);
    weights += entities[n].weight;
    largest = std::max(largest, most[n]);
    tree.activate(entities[n], false);
  }
  double all = 0;
  for (unsigned slot = 0; slot < 2000; ++slot) {
    BfqEntity& chosen = *tree.choose();
    const auto index = static_cast<std::size_t>(&chosen - entities.data());
    tree.take(chosen);
    const std::uint64_t sectors = random.one_in(3) ? 1 + random(chosen.budget) : chosen.budget;
    tree.serve(chosen, sectors);
    served[index] += static_cast<double>(sectors);
    all += static_cast<double>(sectors);
    chosen.budget = 1 + random(static_cast<std::uint64_t>(most[index]));
    tree.requeue(chosen);
    chosen.service = 0;
    for (std::size_t n = 0; n < count; ++n) {
      const double share = entities[n].weight / weights;
      CHECK(served[n] - share * all <= most[n] + 1);
      CHECK(share * all - served[n] <= most[n] + share * largest + 1);
      const double pair = std::abs(served[n] / entities[n].weight - served[0] / entities[0].weight);
      CHECK(pair <= most[n] / entities[n].weight + most[0] / entities[0].weight + 0.1);
    }
  }
  for (BfqEntity& entity : entities) tree.remove(entity);
}

/// I6 and I21 at each level of a tree of groups: all leaves are backlogged from a common start.
class GroupTree {
 public:
  explicit GroupTree(std::uint64_t seed) : random_(seed) { grow(root_, 3); }
  ~GroupTree() {
    for (Node& node : nodes_) {
      if (node.entity->tree != nullptr) node.entity->tree->remove(*node.entity);
    }
  }

  void run(unsigned slots) {
    for (Node& node : nodes_) {
      if (node.entity->is_group) continue;
      node.entity->budget = 1 + random_(node.most);
      bfq_activate(*node.entity, 1, false);
    }
    for (unsigned n = 0; n < slots; ++n) {
      slot();
      for (const Node& node : nodes_) check(node);
    }
  }

 private:
  struct Node {
    BfqEntity* entity = nullptr;
    std::uint64_t most = 0;  ///< largest budget of it, or of what is below it
    double served = 0;
  };

  std::uint64_t grow(BfqGroup& group, unsigned levels) {
    std::uint64_t largest = 0;
    for (std::uint64_t n = 1 + random_(4); n != 0; --n) {
      const std::size_t index = nodes_.size();
      Node& node = nodes_.emplace_back();
      if (levels > 1 && random_.one_in(2)) {
        groups_.push_back(std::make_unique<BfqGroup>(&group));
        node.entity = groups_.back().get();
        const std::uint64_t below = grow(*groups_.back(), levels - 1);
        nodes_[index].most = below;
      } else {
        leaves_.push_back(std::make_unique<BfqEntity>());
        node.entity = leaves_.back().get();
        node.entity->above = &group;
        node.most = 512 + random_(16000);
      }
      BfqEntity& entity = *nodes_[index].entity;
      entity.weight = entity.wanted_weight = static_cast<std::uint32_t>(1 + random_(100));
      largest = std::max(largest, nodes_[index].most);
    }
    return largest;
  }

  Node& node_of(const BfqEntity* entity) {
    return *std::find_if(nodes_.begin(), nodes_.end(),
                         [entity](const Node& node) { return node.entity == entity; });
  }

  void slot() {
    BfqEntity* leaf = &root_;
    do leaf = static_cast<BfqGroup*>(leaf)->take_next({1});
    while (leaf->is_group);
    const std::uint64_t sectors = random_.one_in(3) ? 1 + random_(leaf->budget) : leaf->budget;
    bfq_serve(*leaf, sectors);
    for (const BfqEntity* e = leaf; e->above != nullptr; e = e->above) {
      CHECK(e->service == sectors);
      node_of(e).served += static_cast<double>(sectors);
    }
    all_ += static_cast<double>(sectors);
    leaf->budget = 1 + random_(node_of(leaf).most);
    bfq_requeue(*leaf, 1);
    leaf->service = 0;
  }

  void check(const Node& node) {
    const BfqGroup& above = *node.entity->above;
    double weights = 0;
    double largest = 0;
    for (const Node& other : nodes_) {
      if (other.entity->above != &above) continue;
      weights += other.entity->weight;
      largest = std::max(largest, static_cast<double>(other.most));
    }
    const double share = node.entity->weight / weights;
    const double whole = above.above == nullptr ? all_ : node_of(&above).served;
    const auto most = static_cast<double>(node.most);
    CHECK(node.served - share * whole <= most + 1);
    CHECK(share * whole - node.served <= most + share * largest + 1);
    if (!node.entity->is_group) return;
    const auto& group = static_cast<const BfqGroup&>(*node.entity);
    CHECK(group.budget == group.next()->budget);
    CHECK(group.service == 0);
  }

  Random random_;
  BfqGroup root_;
  std::vector<std::unique_ptr<BfqGroup>> groups_;
  std::vector<std::unique_ptr<BfqEntity>> leaves_;
  std::deque<Node> nodes_;
  double all_ = 0;
};

/// I8 to I18 as far as they are about what stage 1 does, on the elevator alone.
class BfqModel {
 public:
  explicit BfqModel(std::uint64_t seed)
      : random_(seed), bench_(random_.one_in(2)), issuers_(1 + random_(6)) {
    if (random_.one_in(2)) {
      for (const char* path : {"/a", "/a/b", "/a/c", "/d", "/d/e/f"}) {
        groups_.push_back(bench_.group(path, static_cast<std::uint32_t>(1 + random_(1000))));
      }
    }
    bench_.limits.max_sectors = {64};
    bench_.elevator.join_twins(random_.one_in(2));
    bench_.nomerges = static_cast<unsigned>(random_(3));
    for (std::uint64_t n = 0; n < issuers_; ++n) {
      const std::uint64_t kind = random_(8);
      members_.push_back(groups_[random_(groups_.size())]);
      priorities_.push_back(kind == 0   ? IoPriority::real_time(static_cast<unsigned>(random_(8)))
                            : kind == 1 ? IoPriority::idle()
                                        : IoPriority::best_effort(unsigned(random_(8))));
    }
  }

  [[nodiscard]] const Bfq::Counts& counts() const { return bench_.elevator.counts(); }
  std::string run(unsigned steps) {
    for (unsigned n = 0; n < steps; ++n) step();
    drain();
    return log_;
  }

 private:
  void step() {
    bench_.advance_us(static_cast<std::int64_t>(random_(random_.one_in(20) ? 200'000 : 2'000)));
    switch (random_(8)) {
      case 0:
      case 1:
      case 2:
        insert();
        break;
      case 3:
        if (random_.one_in(10)) tune();
        break;
      case 4:
      case 5:
        if (!bench_.out.empty()) complete();
        break;
      default:
        dispatch();
    }
    balance();
  }

  void tune() {
    bench_.tune([this](BfqTunables& tunables) {
      constexpr std::array<std::uint32_t, 4> kBudgets = {0, 64, 2048, 100'000};
      tunables.max_budget = kBudgets[random_(4)];
      tunables.slice_idle_us = random_.one_in(3) ? 0 : 8000;
      tunables.strict_guarantees = random_.one_in(4);
      tunables.fifo_expire_sync_ms = random_.one_in(2) ? 1 : 125;
      tunables.back_seek_max_kb = random_.one_in(3) ? 0 : 16384;
      tunables.low_latency = random_.one_in(2);
      tunables.timeout_sync_ms = random_.one_in(3) ? 4 : 124;
    });
    bench_.nomerges = static_cast<unsigned>(random_(3));
    if (random_.one_in(3)) members_[random_(issuers_)] = groups_[random_(groups_.size())];
    if (random_.one_in(3)) {
      bench_.weights.set(groups_.back(), static_cast<std::uint32_t>(random_(1001)));
      bench_.elevator.group_weights_changed();
    }
    // A wait that has begun is not ended by a tunable.
    if (bench_.elevator.waiting()) bench_.advance_us(20'000);
    if (random_.one_in(3)) {
      priorities_[random_(issuers_)] = IoPriority::make(1 + unsigned(random_(3)), 4);
      changed_class_ = true;
    }
  }

  void insert() {
    for (std::uint64_t n = 1 + random_(4); n != 0; --n) {
      const std::uint64_t issuer = 1 + random_(issuers_);
      BfqBench::Item item;
      item.issuer = issuer;
      item.op = random_.one_in(3) ? Op::write : Op::read;
      item.start = 8 * random_(1024);
      item.length = 8 * (1 + random_(3));
      item.priority = priorities_[issuer - 1];
      item.group = members_[issuer - 1];
      item.sync = item.op == Op::read || random_.one_in(2);
      if (random_.one_in(20)) item.flags = kRqAtHead | kRqNoMerge;
      if (random_.one_in(3)) item.flags = kRqLookupSkipped;
      submitted_ += item.length;
      bench_.add(item);
    }
    if (!random_.one_in(3)) return;
    Bio& bio = bench_.bios.emplace_back();
    bench_.fill(bio, {.issuer = 1,
                      .start = 8 * random_(1024),
                      .priority = priorities_[0],
                      .group = members_[0]});
    RequestList merged;
    const MergeResult kind = bench_.elevator.bio_merge(bio, merged, bench_.now);
    merged.clear();
    bench_.elevator.check();
    if (kind == MergeResult::back || kind == MergeResult::front) submitted_ += bio.length.value;
  }

  void dispatch() {
    Bfq& elevator = bench_.elevator;
    const bool had_work = elevator.has_work();
    const std::uint32_t in_driver = elevator.in_driver();
    const bool real_time = real_time_queued();
    const BfqTunables& tunables = elevator.tunables();
    const std::uint64_t injected = elevator.counts().injected;
    const Request* const rq = bench_.dispatch();
    if (tunables.strict_guarantees) CHECK(elevator.in_driver() <= std::max(in_driver, 1U));  // I13
    if (rq == nullptr) {
      if (had_work && tunables.slice_idle_us == 0 && !tunables.strict_guarantees) {
        CHECK(false);  // I8: nobody is waited for
      }
      if (had_work && in_driver == 0) look_at_wait();
      return;
    }
    executed_ += rq->length.value;
    log_ += std::to_string(rq->start.value) + "+" + std::to_string(rq->length.value) + " ";
    if ((rq->flags & kRqAtHead) != 0) return;
    const unsigned io_class = BfqPriority::of(rq->priority).io_class;
    const bool in_turn = elevator.counts().injected == injected;
    if (real_time && !changed_class_ && in_turn && groups_.size() == 1)
      CHECK(io_class != BfqPriority::kBestEffort);  // I10
    check_parts(*rq);
  }

  bool real_time_queued() {
    bool any = false;
    for (std::uint64_t issuer = 1; issuer <= issuers_; ++issuer) {
      const BfqQueue* const queue = bench_.elevator.queue_of(issuer);
      any = any || (queue != nullptr && queue->io_class == 0 && queue->queued != 0);
    }
    for (unsigned level = 0; level < 8; ++level) {
      any = any || bench_.elevator.async_queue(IoPriority::real_time(level)).queued != 0;
    }
    return any;
  }

  /// I9: the device is idle although something is queued.
  void look_at_wait() {
    const Bfq& elevator = bench_.elevator;
    const BfqQueue* const queue = elevator.in_service();
    REQUIRE(queue != nullptr);
    CHECK(queue->empty());
    CHECK(elevator.waiting());
    // Who became one queue, or was served out of turn, may have been the reason to wait.
    const Bfq::Counts& counts = elevator.counts();
    if (counts.joined + counts.injected == 0) CHECK(elevator.better_to_idle(*queue));
    REQUIRE(elevator.wake_at().has_value());
    CHECK(bench_.now < *elevator.wake_at());
    CHECK(*elevator.wake_at() <= bench_.now + Duration{20'000'000});
  }

  /// I18.
  void check_parts(const Request& rq) {
    Sector at = rq.start;
    for (const Bio* bio = rq.first; bio != nullptr; bio = bio->next) {
      CHECK(bio->start == at);
      CHECK(bio->op == rq.op);
      const bool sync = bio->op == Op::read || (bio->flags & kBioSync) != 0;
      CHECK(sync == (rq.op == Op::read || (rq.bio_flags & kBioSync) != 0));
      // A queue that moved has requests that came before; one that is shared has those of several.
      const bool one_issuer = sync && bench_.elevator.counts().joined == 0;
      if (one_issuer) CHECK(bio->issuer == rq.issuer);
      if (!sync) CHECK(bio->group == rq.group);
      at = bio->end();
    }
    CHECK(at == rq.end());
    CHECK(rq.length <= bench_.limits.max_sectors);
  }

  void complete() { bench_.complete(*bench_.out[random_(bench_.out.size())]); }

  /// I14.
  void balance() {
    const Bfq::Counts& counts = bench_.elevator.counts();
    const std::uint64_t gone = counts.dispatched + counts.merged + bench_.elevator.queued();
    CHECK(counts.inserted >= gone);  // those at head are neither
    CHECK(counts.dispatched - counts.completed == bench_.out.size());
  }

  void drain() {
    Bfq& elevator = bench_.elevator;
    for (unsigned tries = 0; elevator.has_work() || !bench_.out.empty(); ++tries) {
      REQUIRE(tries < 100'000);
      dispatch();
      if (bench_.out.empty()) bench_.advance_us(8000);
      bench_.complete_all();
    }
    CHECK(executed_ == submitted_);
    const Bfq::Counts& counts = elevator.counts();
    CHECK(counts.inserted == counts.dispatched + counts.merged);
    CHECK(counts.dispatched == counts.completed);
    CHECK(elevator.in_driver() == 0);
  }

  Random random_;
  BfqBench bench_;
  std::uint64_t issuers_;
  std::vector<IoPriority> priorities_;
  std::vector<GroupId> groups_{kRootGroup};
  std::vector<GroupId> members_;  ///< of each issuer
  bool changed_class_ = false;
  std::uint64_t submitted_ = 0;
  std::uint64_t executed_ = 0;
  std::string log_;
};

}  // namespace

TEST_SUITE("bfq properties") {
  TEST_CASE("I1 to I5: entities that come and go") {
    for (const std::uint64_t seed : seeds(200)) {
      CAPTURE(seed);
      TreeModel(seed).run(400);
    }
  }

  TEST_CASE("I6: surplus, deficit and pairs stay within a budget") {
    for (const std::uint64_t seed : seeds(60)) {
      CAPTURE(seed);
      check_bounds(seed);
    }
  }

  TEST_CASE("I6 and I21 at each level of groups") {
    for (const std::uint64_t seed : seeds(60)) {
      CAPTURE(seed);
      GroupTree(seed).run(1000);
    }
  }

  TEST_CASE("I8 to I18, I20: random arrivals, completions and tunables") {
    Bfq::Counts seen;
    const std::vector<std::uint64_t> all_seeds = seeds(150);
    for (const std::uint64_t seed : all_seeds) {
      CAPTURE(seed);
      auto first = std::make_unique<BfqModel>(seed);
      auto second = std::make_unique<BfqModel>(seed);
      const std::string dispatched = first->run(600);
      CHECK(!dispatched.empty());
      CHECK(dispatched == second->run(600));
      seen.joined += first->counts().joined;
      seen.split += first->counts().split;
      seen.injected += first->counts().injected;
    }
    if (all_seeds.size() == 1) return;
    CHECK(seen.joined > 0);
    CHECK(seen.split > 0);
    CHECK(seen.injected > 0);
  }
}
