// SPDX-License-Identifier: Apache-2.0
// FifoBench: a Bench whose queue has a FifoElevator.
//
// Owns:       both; at the end it lets go of what was held and drains.
// Thread:     one.
#pragma once

#include <cstdint>
#include <memory>

#include "bench.hpp"
#include "fifo_elevator.hpp"

namespace elevd::sched::test {

struct FifoBench {
  FifoElevator::Options fifo;
  FifoElevator* elevator = nullptr;
  Bench bench;
  explicit FifoBench(FifoElevator::Options fifo_options = {}, std::uint32_t depth = 4,
                     unsigned workers = 1, Limits limits = {})
      : fifo(fifo_options), bench({.workers = workers, .depth = depth, .limits = limits}) {
    auto made = std::make_unique<FifoElevator>(fifo);
    elevator = made.get();
    bench.queue().set_elevator(std::move(made));
  }
  ~FifoBench() {
    fifo.hold = false;
    bench.queue().run(bench.worker());
    bench.drain();
  }
};

}  // namespace elevd::sched::test
