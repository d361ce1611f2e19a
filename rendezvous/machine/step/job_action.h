// What comes out of a step of a JobMachine: what is to be done. JobMachine has the same names.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_ACTION_H_
#define DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_ACTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/job_event.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/stack_findings.h"
#include "rendezvous/machine/job_record.h"
#include "rendezvous/stacks/encoded_stack_tree.h"
#include "rendezvous/stacks/rank_set.h"

namespace ddprun::job_action {

// Make this durable, in place of what was there, before any later action becomes visible; a
// HeartbeatAck need not wait for it.
struct Persist {
  JobRecord record;
  bool operator==(const Persist&) const = default;
};
struct Send {
  Header header;  // header.agent_id is the addressee
  RendezvousMessage message;
  bool operator==(const Send&) const = default;
};
// The same to many agents: a job has thousands, and to make a message for each takes long.
struct SendToMany {
  Header header;  // of each, but for header.agent_id
  std::vector<AgentId> to;
  std::shared_ptr<const RendezvousMessage> message;  // never null

  Header HeaderOf(AgentId agent_id) const {
    return {header.job, header.requeue_number, header.generation, agent_id};
  }
  bool operator==(const SendToMany& other) const {
    return header == other.header && to == other.to && *message == *other.message;
  }
};
// To the operator who asked.
struct Answer {
  std::uint64_t ticket = 0;
  bool accepted = false;
  std::string text;
  bool operator==(const Answer&) const = default;
};
// To the operator who asked for stacks.
struct ShowStacks {
  std::uint64_t ticket = 0;
  EncodedStackTree tree;
  std::vector<std::string> missing;  // hosts that did not answer in time, sorted
  bool operator==(const ShowStacks&) const = default;
};
// What takes long in a large job, in this order (StackMerge): add an answer to those of the
// request, which begins with the first one; say what they say, Step(StacksJudged), which ends it;
// or forget it.
struct MergeStacks {
  StackRequestId request;
  std::string host;
  RankRange ranks;
  std::shared_ptr<const EncodedStackTree> tree;
  std::shared_ptr<const std::string> packed{};  // as in StacksTaken
  bool operator==(const MergeStacks&) const = default;
};
struct JudgeStacks {
  StackRequestId request;
  std::shared_ptr<const StackQuestion> question;
  bool operator==(const JudgeStacks&) const = default;
};
struct ForgetStacks {
  StackRequestId request;
  bool operator==(const ForgetStacks&) const = default;
};
// For the history of the job.
struct Happened {
  JobEvent event;
  bool operator==(const Happened&) const = default;
};
// Something a person may want to read in the log, with its reason.
struct Note {
  std::string text;
  bool operator==(const Note&) const = default;
};
using Any = std::variant<Persist, Send, SendToMany, Answer, ShowStacks, MergeStacks, JudgeStacks,
                         ForgetStacks, Happened, Note>;

}  // namespace ddprun::job_action

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_ACTION_H_
