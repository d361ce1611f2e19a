// Outboxes: performs at once what JobMachines say, or in portions where it is for thousands.
//
// A job's actions keep their order; a HeartbeatAck goes past those that wait. Of JobLoop, whose
// other events are handled between two portions.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_OUTBOXES_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_OUTBOXES_H_

#include <cstddef>
#include <deque>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/job_machine.h"
#include "rendezvous/service/completion_barrier.h"
#include "rendezvous/service/job/served_job.h"

namespace ddprun {

class Outboxes {
 public:
  class Actor {
   public:
    virtual void Send(ServedJob& job, const Header& header, const RendezvousMessage& message) = 0;
    // Of any other kind than SendToMany.
    virtual void Perform(ServedJob& job, JobMachine::Action& action) = 0;

   protected:
    ~Actor() = default;
  };

  // Both outlive it.
  Outboxes(Actor* actor, CompletionBarrier* completions)
      : actor_(actor), completions_(completions) {}
  Outboxes(const Outboxes&) = delete;
  Outboxes& operator=(const Outboxes&) = delete;

  // So many messages are too many to be sent at once.
  static bool AreMany(std::size_t messages) { return messages > kMostAtOnce; }
  // That an action stands for.
  static std::size_t MessagesOf(const JobMachine::Action& action);

  // Performs it now. It goes to the end of the job's outbox instead if that is not empty, or if it
  // is one of `many`; never a HeartbeatAck.
  void Deliver(const JobPtr& job, JobMachine::Action& action, bool many);
  // What is next of one job, for so long.
  void WorkOff(Duration portion);
  bool empty() const { return waiting_.empty(); }
  void Clear();

 private:
  static constexpr std::size_t kMostAtOnce = 64;

  void Perform(ServedJob& job, JobMachine::Action& action);
  // The first in the outbox; of a SendToMany, one message.
  void PerformNext(ServedJob& job);

  Actor* const actor_;
  CompletionBarrier* const completions_;
  std::deque<JobPtr> waiting_;  // whose outboxes are not empty
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_OUTBOXES_H_
