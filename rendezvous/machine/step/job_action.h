// The actions that a step of the JobMachine returns; JobLoop carries them out. JobMachine has
// aliases for these types.
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

// Replace the job's durable record by this one. Later actions, except HeartbeatAcks, have no
// visible effect until the record is durable.
struct Persist {
  std::shared_ptr<const JobRecord> record;  // never null; a pointer keeps each action small
  bool operator==(const Persist&) const = default;
};
struct Send {
  Header header;  // header.agent_id: the receiver
  RendezvousMessage message;
  bool operator==(const Send&) const = default;
};
// Send one message to many agents. A separate message for each of thousands would take long.
struct SendToMany {
  Header header;  // of each message, except header.agent_id
  std::vector<AgentId> to;
  std::shared_ptr<const RendezvousMessage> message;  // never null

  Header HeaderOf(AgentId agent_id) const {
    return {header.job, header.requeue_number, header.generation, agent_id};
  }
  bool operator==(const SendToMany& other) const {
    return header == other.header && to == other.to && *message == *other.message;
  }
};
// Answer an operator's request.
struct Answer {
  std::uint64_t ticket = 0;
  bool accepted = false;
  std::string text;
  bool operator==(const Answer&) const = default;
};
// Send the stacks to the operator who asked for them.
struct ShowStacks {
  std::uint64_t ticket = 0;
  EncodedStackTree tree;
  std::vector<std::string> missing;  // hosts whose stacks are missing, sorted
  bool operator==(const ShowStacks&) const = default;
};
// MergeStacks, JudgeStacks and ForgetStacks take long in a large job, so JobLoop runs them on
// another thread (StackWorker). MergeStacks adds one node's answer to a request; the first one
// begins the request. JudgeStacks ends the request, and its answer is StacksJudged. ForgetStacks
// drops the request.
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
// Add an event to the job's history.
struct Happened {
  JobEvent event;
  bool operator==(const Happened&) const = default;
};
// Write a line to the log.
struct Note {
  std::string text;
  bool operator==(const Note&) const = default;
};
using Any = std::variant<Persist, Send, SendToMany, Answer, ShowStacks, MergeStacks, JudgeStacks,
                         ForgetStacks, Happened, Note>;

}  // namespace ddprun::job_action

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_ACTION_H_
