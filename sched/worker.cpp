// SPDX-License-Identifier: Apache-2.0
#include "worker.hpp"

#include "assertion.hpp"
#include "request_queue.hpp"

namespace elevd::sched {

Worker::Worker(unsigned index, std::span<Worker* const> peers, Driver& driver)
    : index_(index), peers_(peers), driver_(driver) {}

Worker::~Worker() {
  ELEVD_ASSERT(plug.empty() && finished.empty() && woken.empty() && runs.empty());
}

void Worker::flush_plug(bool from_schedule) {
  if (plug.empty()) return;
  if (trace != nullptr) trace->plug_event(TraceEvent::unplugged, index_, plug.count, now);
  RequestList all;
  all.swap(plug.requests);
  const bool several = plug.several_queues;
  // The flush can come back here (a queue run parks nothing, but keep the order of the kernel).
  plug.count = 0;
  plug.several_queues = false;
  while (!all.empty()) {
    RequestQueue& queue = *all.front().queue;
    if (!several) {
      queue.unplug(*this, all, from_schedule);
      break;
    }
    RequestList own;
    for (auto it = all.begin(); it != all.end();) {
      Request& rq = *it;
      if (rq.queue != &queue) {
        ++it;
        continue;
      }
      it = all.erase(it);
      own.push_back(rq);
    }
    queue.unplug(*this, own, from_schedule);
  }
}

void Worker::resume_woken() {
  for (unsigned n = 0; n < kEntriesPerTurn && !woken.empty(); ++n) {
    Bio& bio = woken.front();
    woken.pop_front();
    bio.queue->resume(*this, bio);
  }
}

void Worker::run_queues() {
  // A dispatcher that goes on in its next turn appends itself again: not for this turn.
  RunList of_this_turn;
  of_this_turn.swap(runs);
  for (unsigned n = 0; n < kEntriesPerTurn && !of_this_turn.empty(); ++n) {
    QueueContext& context = of_this_turn.front();
    of_this_turn.pop_front();
    context.queue->run_noted(*this);
  }
  runs.splice(runs.begin(), of_this_turn);
}

void Worker::take_mail(MailNode& node) {
  Bio& bio = bio_of(node);
  (node.kind == MailKind::woken_bio ? woken : finished).push_back(bio);
}

void Worker::hand_out(BioList& bios) {
  while (!bios.empty()) {
    Bio& bio = bios.front();
    bios.pop_front();
    if (bio.owner == index_) {
      woken.push_back(bio);
    } else {
      bio.mail.kind = MailKind::woken_bio;
      post(bio.owner, bio.mail);
    }
  }
}

void Worker::post(unsigned to, MailNode& node) {
  if (peers_[to]->mailbox.post(node)) to_wake |= std::uint64_t{1} << to;
}

bool Worker::has_work() const {
  return !plug.empty() || !finished.empty() || !woken.empty() || !runs.empty();
}

}  // namespace elevd::sched
