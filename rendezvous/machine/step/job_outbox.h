// JobOutbox: the actions of one step of a JobMachine, in their order.
//
// Owned by the JobMachine; its parts add actions.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_OUTBOX_H_
#define DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_OUTBOX_H_

#include <cstddef>
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
  // Headers and events get the current requeue number and generation. All three outlive this
  // object.
  JobOutbox(const std::string* job, const JobLife* life, const GenerationState* generation)
      : job_(job), life_(life), generation_(generation) {}
  JobOutbox(const JobOutbox&) = delete;
  JobOutbox& operator=(const JobOutbox&) = delete;

  void SendTo(const Node& node, RendezvousMessage message);
  // A message for many nodes. Consecutive sends of one message become one action.
  using Shared = std::shared_ptr<const RendezvousMessage>;
  static Shared Share(RendezvousMessage message) {
    return std::make_shared<const RendezvousMessage>(std::move(message));
  }
  void SendTo(const Node& node, const Shared& message);
  // Answers the sender of a message with this header.
  void Reply(const Header& header, RendezvousMessage message);
  void Emit(JobEvent event);
  void Log(std::string text);
  // Writes `text` to the log, and sends it as a Warning to each node that has a session.
  void WarnAll(const Roster& roster, const std::string& text);
  void Add(job_action::Any action) {
    if (actions_.empty()) actions_.reserve(kUsual);
    actions_.push_back(std::move(action));
  }

  // Makes room for `actions` more actions.
  void Expect(std::size_t actions) { actions_.reserve(actions_.size() + actions); }

  // Returns the actions of the step, and begins the next one.
  std::vector<job_action::Any> Take() { return std::exchange(actions_, {}); }

 private:
  // A Join usually causes this many actions. An action takes 0.8 KiB, so growing the vector would
  // cost a job with many nodes much time.
  static constexpr std::size_t kUsual = 3;

  const std::string* const job_;
  const JobLife* const life_;
  const GenerationState* const generation_;
  std::vector<job_action::Any> actions_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_OUTBOX_H_
