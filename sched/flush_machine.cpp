// SPDX-License-Identifier: Apache-2.0
#include "flush_machine.hpp"

#include "assertion.hpp"

namespace elevd::sched {

std::uint8_t FlushMachine::steps_for(BioFlags flags, bool has_data, bool fua) {
  std::uint8_t steps = has_data ? kStepData : std::uint8_t{0};
  if ((flags & kBioPreflush) != 0) steps |= kStepPreflush;
  if ((flags & kBioFua) != 0 && !fua) steps |= kStepPostflush;
  return steps;
}

void FlushMachine::enter(Request& rq, Instant now, Outcome& out) {
  rq.flags |= kRqFlushSeq;
  next_step(rq, now, out);
  kick(now, out);
}

void FlushMachine::next_step(Request& rq, Instant now, Outcome& out) {
  // An error at any step ends the sequence with that error.
  if (rq.error != 0 || rq.steps == 0) {
    out.done.push_back(rq);
    return;
  }
  if ((rq.steps & kStepPreflush) == 0 && (rq.steps & kStepData) != 0) {
    ++data_in_flight_;
    out.data.push_back(rq);
    return;
  }
  if (pending_.empty()) pending_since_ = now;
  pending_.push_back(rq);
}

void FlushMachine::data_completed(Request& rq, Instant now, Outcome& out) {
  ELEVD_ASSERT(data_in_flight_ > 0);
  --data_in_flight_;
  rq.steps = static_cast<std::uint8_t>(rq.steps & ~kStepData);
  next_step(rq, now, out);
  kick(now, out);
}

void FlushMachine::kick(Instant now, Outcome& out) {
  if (running_ || pending_.empty()) return;
  if (data_in_flight_ != 0 && now - pending_since_ < kStarvation) return;
  running_ = true;
  in_flush_.splice(in_flush_.end(), pending_);
  const Request& waiter = in_flush_.front();
  flush_.op = Op::flush;
  flush_.queue = waiter.queue;
  flush_.flags = static_cast<RequestFlags>(kRqFlush | (waiter.flags & kRqIoStat));
  flush_.tag = waiter.tag;  // borrowed; without scheduler the waiter holds it all the time
  flush_.internal_tag = waiter.internal_tag;
  flush_.worker = waiter.worker;
  flush_.priority = waiter.priority;
  flush_.issuer = waiter.issuer;
  flush_.group = waiter.group;
  flush_.allocated = now;
  flush_.error = 0;
  out.flush = &flush_;
}

void FlushMachine::flush_completed(int error, Instant now, Outcome& out) {
  ELEVD_ASSERT(running_);
  running_ = false;
  flush_.flags = 0;
  RequestList advanced;
  advanced.splice(advanced.end(), in_flush_);
  while (!advanced.empty()) {
    Request& rq = advanced.front();
    advanced.pop_front();
    if (error != 0 && rq.error == 0) rq.error = error;
    const std::uint8_t step = (rq.steps & kStepPreflush) != 0 ? kStepPreflush : kStepPostflush;
    rq.steps = static_cast<std::uint8_t>(rq.steps & ~step);
    next_step(rq, now, out);
  }
  kick(now, out);
}

}  // namespace elevd::sched
