// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <utility>

#include "fake_worker.hpp"

namespace elevd::torture {

Device::~Device() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Device::submit(const Command& command) {
  {
    const std::lock_guard guard(mutex_);
    waiting_.push_back(command);
  }
  changed_.notify_one();
}

void Device::serve() {
  std::vector<Command> running;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (running.empty()) {
        changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
      }
      running.insert(running.end(), waiting_.begin(), waiting_.end());
      waiting_.clear();
    }
    // Any number of them, in any order; the rest waits for what comes meanwhile.
    for (unsigned n = random_.between(1, 4); n > 0 && !running.empty(); --n) {
      std::swap(running[random_.below(static_cast<unsigned>(running.size()))], running.back());
      const Command done = running.back();
      running.pop_back();
      done.reaper->completed(*done.rq, done.error, done.charged);
    }
    if (random_.one_in(4)) std::this_thread::yield();
    for (unsigned spins = random_.below(300); spins > 0; --spins) sched::cpu_relax();
  }
}

}  // namespace elevd::torture
