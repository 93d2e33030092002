// SPDX-License-Identifier: Apache-2.0
#include "freezer.hpp"

namespace elevd::daemon {

class Freezer::GateCommand : public Command {
 public:
  explicit GateCommand(Freezer& freezer) : freezer_(freezer) {}
  bool close = false;
  void execute(sched::Worker& worker) override {
    if (close) {
      freezer_.queue_.close_gate(worker);
    } else {
      freezer_.queue_.open_gate(worker);
    }
    // After the last answer the freezer may send this command again: nothing of it is touched.
    Freezer& freezer = freezer_;
    freezer.unanswered_.fetch_sub(1, std::memory_order_acq_rel);
    freezer.signal();
  }

 private:
  Freezer& freezer_;
};

Freezer::Freezer(sched::RequestQueue& queue, std::span<WorkerPort* const> ports)
    : queue_(queue), ports_(ports) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    commands_.push_back(std::make_unique<GateCommand>(*this));
  }
}

Freezer::~Freezer() = default;

void Freezer::signal() {
  signals_.fetch_add(1, std::memory_order_seq_cst);
  signals_.notify_one();
}

void Freezer::send_to_all(bool close) {
  unanswered_.store(static_cast<std::uint32_t>(ports_.size()), std::memory_order_relaxed);
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    commands_[i]->close = close;
    ports_[i]->send(*commands_[i]);
  }
  // Workers always answer: they never wait for a disk.
  for (;;) {
    const std::uint32_t seen = signals_.load(std::memory_order_seq_cst);
    if (unanswered_.load(std::memory_order_acquire) == 0) return;
    signals_.wait(seen);
  }
}

bool Freezer::drain(const std::atomic<bool>& cancel) {
  for (;;) {
    const std::uint32_t seen = signals_.load(std::memory_order_seq_cst);
    if (queue_.inside() == 0) return true;
    if (cancel.load(std::memory_order_seq_cst)) return false;
    signals_.wait(seen);
  }
}

bool Freezer::freeze(const std::atomic<bool>& cancel) {
  send_to_all(true);
  if (drain(cancel)) return true;
  send_to_all(false);
  return false;
}

void Freezer::thaw() { send_to_all(false); }

}  // namespace elevd::daemon
