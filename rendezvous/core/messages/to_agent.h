// What the rendezvous says to agents.
#ifndef DDPRUN_RENDEZVOUS_CORE_MESSAGES_TO_AGENT_H_
#define DDPRUN_RENDEZVOUS_CORE_MESSAGES_TO_AGENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/failed_checkpoints.h"
#include "rendezvous/core/messages/failure.h"
#include "rendezvous/core/messages/logs.h"
#include "rendezvous/core/outcome.h"
#include "rendezvous/core/saved_state.h"
#include "rendezvous/core/types.h"
#include "rendezvous/stacks/encoded_stack_tree.h"

namespace ddprun {

// The agent has joined, and nothing happens yet. No answer.
struct Waiting {
  std::string reason;  // for people: who is missing, or that the job has all its nodes

  bool operator==(const Waiting&) const = default;
};

// Ranks within the workers of one role (--role). They are counted in the order of the node ranks.
struct RolePlace {
  Rank first_rank;     // of this node's workers; they are consecutive
  int world_size = 0;  // workers with the role; 0: unknown, of a rendezvous that counts no roles

  bool operator==(const RolePlace&) const = default;
};

// The agent's place in the generation that the header names. Answer: AssignmentAck.
struct Assignment {
  NodeRank node_rank;
  int node_count = 0;
  Rank first_rank;  // of this node's workers; they are consecutive
  int world_size = 0;
  std::string master_addr;
  int master_port = 0;
  int restart_count = 0;
  int max_restarts = 0;
  // The same for all; nullopt: no agent has ever told of a state, and rank 0 loads what it finds.
  std::optional<RestorePlan> restore{};
  RunId run_id{};  // the same for all, in every generation; 0: the rendezvous is older than that
  // Random, the same for all nodes of the generation, for their workers alone: never logged, stored
  // or put into an environment. Set on the way to the agent, by who serves the job; empty: the job
  // has no credentials.
  std::string secret{};
  RolePlace role{};
  // The agent of rank 0's node serves torch's store on master_port before it answers; else rank 0's
  // worker does.
  bool agent_store = false;

  bool operator==(const Assignment&) const = default;
};

// The heartbeat with this time was heard: the agent's lease runs from there.
struct HeartbeatAck {
  std::int64_t sent_at = 0;

  bool operator==(const HeartbeatAck&) const = default;
};

// Every node has prepared: spawn the workers. An agent whose workers run already ignores it.
struct Start {
  bool operator==(const Start&) const = default;
};

// A planned stop is coming: ask the workers for a checkpoint now. Answer: Checkpointed, by the node
// that wrote it, or CannotSave.
struct Save {
  bool operator==(const Save&) const = default;
};

// The generation is over: end its workers. Answer: Stopped.
struct Stop {
  std::string reason;
  LookId look{};  // as LookAgain, for the look that Stopped is about
  // Workers of this node that hang: they are ended first, with hang.signal and a short grace.
  std::vector<LocalRank> hung{};

  bool operator==(const Stop&) const = default;
};

// The job is over, for good. The agent ends what still runs and exits with `exit_code`.
struct Finished {
  Outcome outcome = Outcome::kSucceeded;
  int exit_code = 0;
  std::string reason;
  int restarts_used = 0;
  std::optional<RootCause> root_cause;     // of the last generation, unless it succeeded
  std::vector<RootCause> earlier;          // of the generations before, oldest first; at most 64
  FailedCheckpoints failed_checkpoints{};  // of the whole job
  std::vector<std::string> excluded{};     // hosts, because their workers failed again and again
  bool job_is_over = false;                // for all; else for this node, and perhaps for all

  bool operator==(const Finished&) const = default;
};

// The rendezvous does not count on this agent: its lease ran out, or it was never heard of. Its
// ranks may be given away by now. It ends its workers, without any grace, and joins again.
struct Fenced {
  std::string reason;

  bool operator==(const Fenced&) const = default;
};

// This agent cannot be part of the job; the job itself is not affected.
struct Refused {
  std::string reason;

  bool operator==(const Refused&) const = default;
};

// This node looked at its disk before the workers of a node that is gone can have written there
// last. No worker of this node runs: look again. Answer: HeldStates.
struct LookAgain {
  LookId look;
  // The job's: with --start-anew its files count, also those that lay there before this agent came.
  // 0: the rendezvous is older than that.
  RunId run_id{};

  bool operator==(const LookAgain&) const = default;
};

// Something that a person on this node should look at. Nothing follows from it. No answer.
struct Warning {
  std::string text;

  bool operator==(const Warning&) const = default;
};

// Copy the stacks of all workers of the generation, now. Answer: StacksTaken.
struct TakeStacks {
  StackRequestId request;

  bool operator==(const TakeStacks&) const = default;
};

// No rank moves: what is known of it, and where all of them are. For people.
struct HangStacks {
  std::vector<std::string> verdict;  // lines; at most kMaxVerdictLines
  std::vector<std::string> missing;  // hosts that sent no stacks; at most kMaxMissingHosts
  // Never null.
  std::shared_ptr<const EncodedStackTree> tree = std::make_shared<EncodedStackTree>();
  std::string next{};  // what becomes of the workers; a line

  bool operator==(const HangStacks& other) const {
    return verdict == other.verdict && missing == other.missing && *tree == *other.tree &&
           next == other.next;
  }
};

// One for all agents, because a job has thousands. No answer.
struct HangReported {
  std::shared_ptr<const HangStacks> stacks;  // never null

  bool operator==(const HangReported& other) const { return *stacks == *other.stacks; }
};

using RendezvousMessage =
    std::variant<Waiting, HeartbeatAck, Assignment, Start, Save, Stop, Finished, Fenced, Refused,
                 Warning, LookAgain, TakeStacks, HangReported, LogOrder>;

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_TO_AGENT_H_
