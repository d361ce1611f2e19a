// What has happened to a job: the events of a JobMachine. JobMachine has the same names.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_INPUT_H_
#define DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/stack_findings.h"

namespace ddprun::job_input {

struct Received {
  Header header;
  AgentMessage message;
};
struct StreamBroken {
  AgentId agent_id;
};
// The agent was killed, and no worker of it is left.
struct AgentGone {
  AgentId agent_id;
};
// An operator ends the job, or removes a node from it. `save`: after a checkpoint.
struct StopAsked {
  bool save = false;
  std::uint64_t ticket = 0;  // comes back in the Answer
};
struct DrainAsked {
  std::string host;  // every agent with this host name or address
  std::uint64_t ticket = 0;
};
// An operator wants to see the stacks of all ranks.
struct StacksAsked {
  std::uint64_t ticket = 0;  // comes back in the ShowStacks, or in an Answer that refuses
};
// So many more trees are merged. Several MergeStacks may have one common answer.
struct StacksMerged {
  StackRequestId request;
  std::size_t trees = 0;
};
struct StacksJudged {
  StackRequestId request;
  std::shared_ptr<const StackFindings> findings;  // never null
};
struct Tick {};
using Any = std::variant<Received, StreamBroken, AgentGone, StopAsked, DrainAsked, StacksAsked,
                         StacksMerged, StacksJudged, Tick>;

}  // namespace ddprun::job_input

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_INPUT_H_
