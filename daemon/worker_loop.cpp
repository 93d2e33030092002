// SPDX-License-Identifier: Apache-2.0
#include "worker_loop.hpp"

namespace elevd::daemon {

void WorkerLoop::run() {
  while (!stopping_) turn();
}

void WorkerLoop::turn() {
  worker_.now = now();
  if (worker_.wake_at && *worker_.wake_at <= worker_.now) {
    worker_.wake_at.reset();
    for (sched::RequestQueue* queue : timed_queues()) queue->run_later(worker_);
  }
  reap();
  take_mail();
  worker_.resume_woken();
  admit();
  worker_.flush_plug(false);
  worker_.run_queues();
  answer_finished();
  const bool idle = !stopping_ && !worker_.has_work() && may_sleep();
  const bool sleep = idle && worker_.mailbox.prepare_sleep();
  submit(sleep, worker_.wake_at);
  if (sleep) worker_.mailbox.awake();
}

void WorkerLoop::take_mail() {
  sched::MailNode* node = worker_.mailbox.take();
  while (node != nullptr) {
    sched::MailNode* next = node->next;
    if (node->kind == sched::MailKind::command) {
      static_cast<Command*>(node)->execute(worker_);
    } else {
      worker_.take_mail(*node);
    }
    node = next;
  }
}

/// At most kEntriesPerTurn, so that a long list does not keep the ring waiting.
void WorkerLoop::answer_finished() {
  for (unsigned n = 0; n < sched::kEntriesPerTurn && !worker_.finished.empty(); ++n) {
    sched::Bio& bio = worker_.finished.front();
    worker_.finished.pop_front();
    sched::RequestQueue& queue = *bio.queue;
    answer(bio);
    if (queue.leave(worker_)) [[unlikely]] {
      left_closed_gate(queue);
    }
  }
}

}  // namespace elevd::daemon
