// The events of a JobMachine. JobMachine has aliases for these types.
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
// The agent was killed, and all its workers have ended.
struct AgentGone {
  AgentId agent_id;
};
// An operator ends the job (StopAsked) or removes a node (DrainAsked). `save`: make a checkpoint
// first.
struct StopAsked {
  bool save = false;
  std::uint64_t ticket = 0;  // the Answer repeats it
};
struct DrainAsked {
  std::string host;  // every agent with this host name or address
  std::uint64_t ticket = 0;
};
// An operator requests the stacks of all ranks.
struct StacksAsked {
  std::uint64_t ticket = 0;  // ShowStacks repeats it, or an Answer that refuses
};
// `trees` more trees are merged. One StacksMerged may answer several MergeStacks.
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
