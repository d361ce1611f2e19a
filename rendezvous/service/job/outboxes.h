// Outboxes: perform the JobMachines' actions, at once or, for thousands of messages, in portions.
//
// A job's actions keep their order, except that a HeartbeatAck overtakes waiting actions. Owned by
// JobLoop, which handles other events between two portions.
//
// While Validity does not hold, nothing is performed: HeartbeatAcks are dropped, and all other
// actions wait.
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
    // Performs any action except SendToMany.
    virtual void Perform(ServedJob& job, JobMachine::Action& action) = 0;

   protected:
    ~Actor() = default;
  };

  // All arguments outlive this object. Without `validity`, sending is always allowed.
  Outboxes(Actor* actor, CompletionBarrier* completions, const Validity* validity = nullptr)
      : actor_(actor), completions_(completions), validity_(validity) {}
  Outboxes(const Outboxes&) = delete;
  Outboxes& operator=(const Outboxes&) = delete;

  // Whether this many messages are sent in portions.
  static bool AreMany(std::size_t messages) { return messages > kMostAtOnce; }
  // How many messages an action sends. An action that sends none counts as one.
  static std::size_t MessagesOf(const JobMachine::Action& action);

  // Performs the action now. Appends it to the job's outbox instead in three cases: the outbox is
  // not empty; the action is one of `many`; validity does not hold. A HeartbeatAck is never
  // appended.
  void Deliver(const JobPtr& job, JobMachine::Action& action, bool many);
  // Performs waiting actions of one job, until `portion` is over.
  void WorkOff(Duration portion);
  // True if an action waits and is allowed to be performed now.
  bool ready() const { return !waiting_.empty() && MaySpeak(); }
  void Clear();

 private:
  static constexpr std::size_t kMostAtOnce = 64;

  bool MaySpeak() const { return validity_ == nullptr || validity_->Holds(); }
  void Perform(ServedJob& job, JobMachine::Action& action);
  // Performs the outbox's first action. If it is a SendToMany, sends one message of it.
  void PerformNext(ServedJob& job);

  Actor* const actor_;
  CompletionBarrier* const completions_;
  const Validity* const validity_;
  std::deque<JobPtr> waiting_;  // jobs whose outboxes are not empty
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_OUTBOXES_H_
