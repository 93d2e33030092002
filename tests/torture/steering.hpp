// SPDX-License-Identifier: Apache-2.0
// Steering: the threads that change, read and watch disks while the workers work.
//
// Owns:       three threads: keeper, reader, watchdog.
// Thread:     made and destroyed by the main thread, between rounds.
// Invariants: per round only a bounded number of things is done, so that nothing that is lost is
//             found again by accident.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "team.hpp"

namespace elevd::torture {

class Steering {
 public:
  explicit Steering(Team& team);
  /// Ends the threads. REQUIRES: a round is not under way.
  ~Steering();

 private:
  /// Waits for the next round; false: the end.
  [[nodiscard]] bool next_round(std::uint32_t& seen) const;

  void keep();
  void change(Random& random, Disk& disk);
  void apply(Random& random, Disk& disk);
  void check_frozen(Disk& disk);

  void read();
  void read_disk(Random& random, Disk& disk);

  void watch();
  struct Watched;
  void look(Watched& watched);

  Team& team_;
  std::atomic<bool> stopping_{false};
  std::atomic<Disk*> changing_{nullptr};
  std::atomic<bool> cancel_{false};
  std::mutex mutex_;
  std::condition_variable stop_watching_;
  std::thread keeper_;
  std::thread reader_;
  std::thread watchdog_;
};

/// Nothing is inside `disk`: no tag is busy, nobody waits, nothing is queued, the sums match.
void check_quiet(Disk& disk);

}  // namespace elevd::torture
