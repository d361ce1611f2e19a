// JobOutbox: what a JobMachine says in one step, in the order in which it says it.
//
// Owned by the JobMachine; its parts write to it.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_OUTBOX_H_
#define DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_OUTBOX_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/job_event.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/machine/generation_state.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/nodes/roster.h"
#include "rendezvous/machine/step/job_action.h"

namespace ddprun {

class JobOutbox {
 public:
  // Headers and events are of the life and the generation of the moment. All three outlive it.
  JobOutbox(const std::string* job, const JobLife* life, const GenerationState* generation)
      : job_(job), life_(life), generation_(generation) {}
  JobOutbox(const JobOutbox&) = delete;
  JobOutbox& operator=(const JobOutbox&) = delete;

  void SendTo(const Node& node, RendezvousMessage message);
  // A message for many nodes. Those to which it goes one after the other are
  // one action.
  using Shared = std::shared_ptr<const RendezvousMessage>;
  static Shared Share(RendezvousMessage message) {
    return std::make_shared<const RendezvousMessage>(std::move(message));
  }
  void SendTo(const Node& node, const Shared& message);
  // To who sent the message with this header.
  void Reply(const Header& header, RendezvousMessage message);
  void Emit(JobEvent event);
  void Log(std::string text);
  // To the log, and to a person on each node.
  void WarnAll(const Roster& roster, const std::string& text);
  void Add(job_action::Any action) { actions_.push_back(std::move(action)); }

  // What the step has said. The next one begins.
  std::vector<job_action::Any> Take() { return std::exchange(actions_, {}); }

 private:
  const std::string* const job_;
  const JobLife* const life_;
  const GenerationState* const generation_;
  std::vector<job_action::Any> actions_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_OUTBOX_H_
