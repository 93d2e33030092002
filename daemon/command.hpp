// SPDX-License-Identifier: Apache-2.0
// Command: something a worker is asked to do in its own thread. WorkerPort: how one is sent.
//
// Owns:       nothing; a command lives with its sender until the worker has executed it.
// Thread:     send from any thread; execute in the worker's.
// Invariants: a command is in one mailbox at most; its sender learns of its end from it.
// See also:   sched/mailbox.hpp; docs/architecture.md "Concurrency rules", rule 4.
#pragma once

#include "sched/mailbox.hpp"
#include "sched/worker.hpp"

namespace elevd::daemon {

class Command : public sched::MailNode {
 public:
  Command() { kind = sched::MailKind::command; }
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  virtual void execute(sched::Worker& worker) = 0;
};

class WorkerPort {
 public:
  explicit WorkerPort(sched::Mailbox& mailbox) : mailbox_(mailbox) {}
  virtual ~WorkerPort() = default;
  /// From any thread that is not a worker.
  void send(Command& command) {
    if (mailbox_.post(command)) wake();
  }
  /// Ends the worker's sleep.
  virtual void wake() = 0;

 private:
  sched::Mailbox& mailbox_;
};

}  // namespace elevd::daemon
