// Outboxes: performs at once what JobMachines say, or in portions where it is for thousands.
//
// A job's actions keep their order; a HeartbeatAck goes past those that wait. Of JobLoop, whose
// other events are handled between two portions.
//
// While Validity does not hold, nothing is performed: a HeartbeatAck is dropped, all else waits.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_OUTBOXES_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_OUTBOXES_H_

#include <cstddef>
#include <deque>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/job_machine.h"
#include "rendezvous/service/completion_barrier.h"
#include "rendezvous/service/job/served_job.h"
#include "rendezvous/service/leadership/validity.h"

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

  // All outlive it. Without `validity` it always holds.
  Outboxes(Actor* actor, CompletionBarrier* completions, const Validity* validity = nullptr)
      : actor_(actor), completions_(completions), validity_(validity) {}
  Outboxes(const Outboxes&) = delete;
  Outboxes& operator=(const Outboxes&) = delete;

  // So many messages are too many to be sent at once.
  static bool AreMany(std::size_t messages) { return messages > kMostAtOnce; }
  // That an action stands for.
  static std::size_t MessagesOf(const JobMachine::Action& action);

  // Performs it now. It goes to the end of the job's outbox instead if that is not empty, if it is
  // one of `many`, or while validity does not hold; never a HeartbeatAck.
  void Deliver(const JobPtr& job, JobMachine::Action& action, bool many);
  // What is next of one job, for so long.
  void WorkOff(Duration portion);
  // Something waits that may be performed now.
  bool ready() const { return !waiting_.empty() && MaySpeak(); }
  void Clear();

 private:
  static constexpr std::size_t kMostAtOnce = 64;

  bool MaySpeak() const { return validity_ == nullptr || validity_->Holds(); }
  void Perform(ServedJob& job, JobMachine::Action& action);
  // The first in the outbox; of a SendToMany, one message.
  void PerformNext(ServedJob& job);

  Actor* const actor_;
  CompletionBarrier* const completions_;
  const Validity* const validity_;
  std::deque<JobPtr> waiting_;  // whose outboxes are not empty
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_OUTBOXES_H_
