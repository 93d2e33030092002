// SPDX-License-Identifier: Apache-2.0
// Waiting for tags: whatever happens in whatever order, nobody is parked for ever, nobody of a
// class is overtaken by a new one, no tag is lost (docs/architecture.md, rules 6 and 7).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "random.hpp"
#include "sched/tag_map.hpp"

using namespace elevd::sched;
using elevd::sched::test::Random;
using elevd::sched::test::seeds;

namespace {

/// A map and the users of its tags, one step at a time; what must hold is looked at after each.
class TagsModel {
 public:
  TagsModel(std::uint32_t depth, std::vector<DepthLimit> limits, std::uint32_t taken_before = 0)
      : tags_(depth, depth, 1), limits_(std::move(limits)) {
    std::uint32_t least = Sbitmap::kUnlimited;
    for (const DepthLimit& limit : limits_) least = std::min(least, limit.shallow);
    tags_.set_min_shallow_depth(least);
    for (std::uint32_t n = 0; n < taken_before; ++n) hold(tags_.try_get(0, Sbitmap::kUnlimited));
  }
  ~TagsModel() {
    // Whatever failed: leave the map as its destructor wants it.
    for (unsigned n = 0; n < 10000 && (tags_.waiting() != 0 || !held_.empty()); ++n) {
      while (!woken_.empty()) resume(false);
      if (held_.empty() && tags_.waiting() != 0) {  // stuck: make frees until it wakes
        hold(tags_.try_get(0, Sbitmap::kUnlimited));
      }
      free_oldest();
    }
  }
  TagsModel(const TagsModel&) = delete;
  TagsModel& operator=(const TagsModel&) = delete;

  void come(std::size_t kind) {
    const DepthLimit limit = limits_[kind];
    User& user = users_.emplace_back();
    user.limit = limit;
    const bool somebody = waits_up_to(limit.depth_class);
    std::int32_t tag = -1;
    if (!tags_.somebody_waits(limit.depth_class)) tag = tags_.try_get(0, limit.shallow);
    if (tag < 0) tag = tags_.get_or_park(user.bio, 0, limit, false, woken_);
    if (tag >= 0 && somebody) trouble_ = "a new bio overtook one that waits";
    settled(user, tag);
  }

  /// `late`: the try outside the lock is taken to have failed.
  void resume(bool late) {
    if (woken_.empty()) return;
    Bio& bio = woken_.front();
    woken_.pop_front();
    User& user = user_of(bio);
    if (!fifo_.empty() && limits_.size() == 1 && fifo_.front() != &user) {
      trouble_ = "woken out of order";
    }
    if (!fifo_.empty()) std::erase(fifo_, &user);
    std::int32_t tag = late ? -1 : tags_.try_get(0, user.limit.shallow);
    if (tag >= 0) {
      tags_.served(bio, woken_);
    } else {
      tag = tags_.get_or_park(bio, 0, user.limit, true, woken_);
    }
    settled(user, tag);
  }

  void free_at(std::size_t index) {
    if (held_.empty()) return;
    index %= held_.size();
    const auto tag = static_cast<std::uint32_t>(held_[index]);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
    tags_.put(tag, 0, woken_);
  }
  void free_oldest() { free_at(0); }
  void free_newest() { free_at(held_.empty() ? 0 : held_.size() - 1); }

  /// Everybody goes on and gives its tag back: nobody may be left waiting.
  void finish() {
    while (!woken_.empty() || !held_.empty()) {
      while (!woken_.empty()) resume(false);
      free_oldest();
    }
    if (tags_.waiting() != 0) trouble_ = "parked for ever";
    if (tags_.bitmap().busy() != 0) trouble_ = "a tag was lost";
  }

  /// What must hold between steps; "" if all does.
  [[nodiscard]] std::string trouble() const {
    if (!trouble_.empty()) return trouble_;
    if (tags_.bitmap().busy() != held_.size()) return "tags taken and held differ";
    if (tags_.waiting() != count_waiting()) return "waiting is miscounted";
    if (tags_.parked() + woken_.size() != tags_.waiting()) return "parked is miscounted";
    if (woken_.empty() && tags_.parked() != 0 && held_.empty()) return "parked beside nothing";
    if (woken_.empty() && limits_.size() == 1 && tags_.parked() != 0 &&
        tags_.depth() - tags_.bitmap().busy() > 2 * (tags_.wake_batch() - 1)) {
      // A bio that parks without a try may do so beside batch - 1 free tags, and the frees after
      // that are counted in batches.
      return "too many tags are free beside a parked bio";
    }
    return "";
  }

 private:
  struct User {
    Bio bio;
    DepthLimit limit;
    bool waits = false;
  };

  void hold(std::int32_t tag) {
    for (const std::int32_t other : held_) {
      if (other == tag) trouble_ = "a tag was given twice";
    }
    held_.push_back(tag);
  }
  void settled(User& user, std::int32_t tag) {
    user.waits = tag < 0;
    if (tag >= 0) {
      hold(tag);
    } else if (limits_.size() == 1) {
      fifo_.push_back(&user);
    }
  }
  [[nodiscard]] User& user_of(const Bio& bio) {
    for (User& user : users_) {
      if (&user.bio == &bio) return user;
    }
    std::abort();
  }
  [[nodiscard]] bool waits_up_to(DepthClass depth_class) const {
    for (const User& user : users_) {
      if (user.waits && user.limit.depth_class <= depth_class) return true;
    }
    return false;
  }
  [[nodiscard]] std::size_t count_waiting() const {
    std::size_t n = 0;
    for (const User& user : users_) n += user.waits ? 1 : 0;
    return n;
  }
  TagMap tags_;
  std::vector<DepthLimit> limits_;
  std::deque<User> users_;
  std::vector<std::int32_t> held_;
  std::vector<const User*> fifo_;  ///< who waits, in order; with one class only
  BioList woken_;
  std::string trouble_;
};

constexpr DepthLimit kFree{};
constexpr DepthLimit kSyncWrite{DepthClass::sync_write, 3};
constexpr DepthLimit kAsync{DepthClass::async, 2};
constexpr DepthLimit kOver{DepthClass::over_limit, 1};

/// Runs every sequence of `length` steps out of `steps`; returns the first that gives trouble.
std::string try_all_sequences(unsigned length, const std::vector<void (*)(TagsModel&)>& steps,
                              const std::function<std::unique_ptr<TagsModel>()>& make) {
  std::vector<std::size_t> digits(length, 0);
  for (;;) {
    const std::unique_ptr<TagsModel> model = make();
    std::string trouble;
    for (std::size_t n = 0; n < length && trouble.empty(); ++n) {
      steps[digits[n]](*model);
      trouble = model->trouble();
    }
    if (trouble.empty()) {
      model->finish();
      trouble = model->trouble();
    }
    if (!trouble.empty()) {
      for (const std::size_t digit : digits) trouble += " " + std::to_string(digit);
      return trouble;
    }
    std::size_t at = 0;
    while (at < length && ++digits[at] == steps.size()) digits[at++] = 0;
    if (at == length) return "";
  }
}

}  // namespace

TEST_SUITE("tags property") {
  TEST_CASE("all sequences of 7 steps, depth 4, three classes, batch 1") {
    const std::vector<void (*)(TagsModel&)> steps = {
        [](TagsModel& m) { m.come(0); },       [](TagsModel& m) { m.come(1); },
        [](TagsModel& m) { m.come(2); },       [](TagsModel& m) { m.free_oldest(); },
        [](TagsModel& m) { m.free_newest(); }, [](TagsModel& m) { m.resume(false); },
        [](TagsModel& m) { m.resume(true); },
    };
    CHECK(
        try_all_sequences(7, steps, [] {
          return std::make_unique<TagsModel>(4U, std::vector<DepthLimit>{kFree, kAsync, kOver}, 3U);
        }) == "");
  }

  TEST_CASE("all sequences of 8 steps, depth 16, one class, batch 2") {
    const std::vector<void (*)(TagsModel&)> steps = {
        [](TagsModel& m) { m.come(0); },
        [](TagsModel& m) { m.free_oldest(); },
        [](TagsModel& m) {
          for (unsigned n = 0; n < 13; ++n) m.free_oldest();
        },
        [](TagsModel& m) { m.resume(false); },
        [](TagsModel& m) { m.resume(true); },
    };
    CHECK(try_all_sequences(8, steps, [] {
            return std::make_unique<TagsModel>(16U, std::vector<DepthLimit>{kFree}, 16U);
          }) == "");
  }

  TEST_CASE("random steps") {
    for (const std::uint64_t seed : seeds(400)) {
      CAPTURE(seed);
      Random random(seed);
      const std::uint32_t depth = static_cast<std::uint32_t>(1 + random(90));
      std::vector<DepthLimit> limits{kFree};
      if (!random.one_in(3)) {
        auto shallow = [&] { return static_cast<std::uint32_t>(1 + random(depth)); };
        limits = {kFree, kSyncWrite, kAsync, kOver};
        for (std::size_t c = 1; c < 4; ++c) limits[c].shallow = shallow();
        limits[2].shallow = std::min(limits[2].shallow, limits[1].shallow);
        limits[3].shallow = std::min(limits[3].shallow, limits[2].shallow);
      }
      TagsModel model(depth, limits, static_cast<std::uint32_t>(random(depth + 1)));
      std::string trouble;
      for (unsigned step = 0; step < 600 && trouble.empty(); ++step) {
        CAPTURE(step);
        const std::uint64_t what = random(10);
        if (what < 4) model.come(random(limits.size()));
        if (what >= 4 && what < 7) model.free_at(random(1000));
        if (what == 7) {
          for (std::uint64_t n = random(20); n > 0; --n) model.free_oldest();
        }
        if (what > 7) {
          for (std::uint64_t n = random(6); n > 0; --n) model.resume(random.one_in(3));
        }
        trouble = model.trouble();
      }
      if (trouble.empty()) {
        model.finish();
        trouble = model.trouble();
      }
      CHECK(trouble == "");
    }
  }
}
