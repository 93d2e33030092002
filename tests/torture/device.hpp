// SPDX-License-Identifier: Apache-2.0
// Device: a thread that completes requests in any order, after any time.
//
// Thread:     submit from any worker; start and stop from the main thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "random.hpp"
#include "sched/request.hpp"

namespace elevd::torture {

class FakeWorker;

class Device {
 public:
  struct Command {
    sched::Request* rq = nullptr;
    int error = 0;
    FakeWorker* reaper = nullptr;
    bool charged = false;
  };
  explicit Device(std::uint64_t seed) : random_(seed, 1000), thread_([this] { serve(); }) {}
  ~Device();

  void submit(const Command& command);

 private:
  void serve();

  Random random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Command> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace elevd::torture
