// SPDX-License-Identifier: Apache-2.0
#include "keeper.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace elevd::daemon {

struct Keeper::Job {
  std::function<void()> task;  ///< of the daemon itself; else the change of a store
  sysfs::Change change;
  std::unique_ptr<PendingStore> store;
  std::atomic<bool> cancelled{false};
};

/// Shared with interrupt callbacks, which may outlive the keeper.
struct Keeper::State {
  std::shared_ptr<Freezer> freezer;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> waiting;
  std::shared_ptr<Job> running;
  bool cancelled = false;  ///< changes are let go
  bool stopping = false;
};

Keeper::Keeper(std::shared_ptr<Freezer> freezer) : state_(std::make_shared<State>()) {
  state_->freezer = std::move(freezer);
  thread_ = std::thread([state = state_] { serve(*state); });
}

Keeper::~Keeper() { stop(); }

void Keeper::submit(sysfs::Change change, std::unique_ptr<PendingStore> store) {
  auto job = std::make_shared<Job>();
  job->change = std::move(change);
  job->store = std::move(store);
  int refusal = 0;
  {
    const std::lock_guard guard(state_->mutex);
    const auto meets = [&job](const std::shared_ptr<Job>& other) {
      return other && !other->task && sysfs::refuses(other->change.kind, job->change.kind);
    };
    if (state_->cancelled) {
      refusal = EINTR;
    } else if (meets(state_->running) ||
               std::any_of(state_->waiting.begin(), state_->waiting.end(), meets)) {
      refusal = EBUSY;
    } else {
      state_->waiting.push_back(job);
    }
  }
  if (refusal != 0) {
    job->store->finish(refusal);
    return;
  }
  job->store->on_interrupt([state = state_, weak = std::weak_ptr<Job>(job)] {
    if (const std::shared_ptr<Job> interrupted = weak.lock()) interrupt(state, interrupted);
  });
  state_->changed.notify_one();
}

/// The caller wants to go: a change that waits is taken out, one that runs is told.
void Keeper::interrupt(const std::shared_ptr<State>& state, const std::shared_ptr<Job>& job) {
  bool waited = false;
  {
    const std::lock_guard guard(state->mutex);
    waited = std::erase(state->waiting, job) != 0;
    job->cancelled.store(true);
  }
  if (waited) {
    job->store->finish(EINTR);
  } else {
    state->freezer->signal();
  }
}

void Keeper::serve(State& state) {
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.changed.wait(lock, [&state] { return state.stopping || !state.waiting.empty(); });
    if (state.waiting.empty()) return;  // stopping
    state.running = state.waiting.front();
    state.waiting.pop_front();
    lock.unlock();
    const int error = carry_out(state, *state.running);
    lock.lock();
    const std::shared_ptr<Job> job = std::move(state.running);
    state.running.reset();
    lock.unlock();
    // Answered when nothing is under way any more: the caller's next store is not refused.
    if (job->store) job->store->finish(error);
    lock.lock();
  }
}

int Keeper::carry_out(State& state, Job& job) {
  if (job.task) {
    job.task();
    return 0;
  }
  const sysfs::Change& change = job.change;
  int error = change.prepare ? change.prepare() : 0;
  if (error == 0 && !state.freezer->freeze(job.cancelled)) error = EINTR;
  if (error == 0) {
    error = change.apply();
    state.freezer->thaw();
    if (error == 0 && change.publish) change.publish();
  }
  return error;
}

void Keeper::post(std::function<void()> task) {
  auto job = std::make_shared<Job>();
  job->task = std::move(task);
  {
    const std::lock_guard guard(state_->mutex);
    state_->waiting.push_back(std::move(job));
  }
  state_->changed.notify_one();
}

void Keeper::cancel_changes() {
  std::vector<std::shared_ptr<Job>> let_go;
  {
    const std::lock_guard guard(state_->mutex);
    state_->cancelled = true;
    if (state_->running) state_->running->cancelled.store(true);
    for (const std::shared_ptr<Job>& job : state_->waiting) {
      if (!job->task) let_go.push_back(job);
    }
    std::erase_if(state_->waiting, [](const std::shared_ptr<Job>& job) { return !job->task; });
  }
  for (const std::shared_ptr<Job>& job : let_go) job->store->finish(EINTR);
  state_->freezer->signal();
}

void Keeper::stop() {
  cancel_changes();
  {
    const std::lock_guard guard(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace elevd::daemon
