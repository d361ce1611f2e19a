// The messages of the rendezvous to agents.
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

// The agent has joined and must wait. Answer: none, except to `start_standbys`.
struct Waiting {
  std::string reason;  // for people: why it waits
  // Start a warm standby for each local rank now. Answer: StandbysReady. Only if the agent has said
  // Join::can_start_standbys.
  bool start_standbys = false;

  bool operator==(const Waiting&) const = default;
};

// Ranks among the workers of one role (--role), in the order of node ranks.
struct RolePlace {
  Rank first_rank;     // of this node's workers; they are consecutive
  int world_size = 0;  // workers with the role; 0: the rendezvous is too old to count roles

  bool operator==(const RolePlace&) const = default;
};

// The agent's place in the header's generation. Answer: AssignmentAck.
struct Assignment {
  NodeRank node_rank;
  int node_count = 0;
  Rank first_rank;  // of this node's workers; they are consecutive
  int world_size = 0;
  std::string master_addr;
  int master_port = 0;
  int restart_count = 0;
  int max_restarts = 0;
  // The same for all agents; nullopt: no agent has reported a state, so rank 0 loads what it finds.
  std::optional<RestorePlan> restore{};
  RunId run_id{};  // the same for all agents and generations; 0: the rendezvous is too old
  // The same on all nodes of the generation, another one for each generation and run. Only for
  // their workers: never logged, stored or put into an environment. JobLoop sets it when it sends
  // the message. Empty: the job has no credentials.
  std::string secret{};
  RolePlace role{};
  // True: the agent of rank 0's node serves torch's store on master_port, and starts it before it
  // answers. False: rank 0's worker serves the store.
  bool agent_store = false;

  bool operator==(const Assignment&) const = default;
};

// The heartbeat with this time arrived: the agent's lease runs from that time.
struct HeartbeatAck {
  std::int64_t sent_at = 0;

  bool operator==(const HeartbeatAck&) const = default;
};

// Every node is ready: start the workers. An agent whose workers already run ignores it.
struct Start {
  bool operator==(const Start&) const = default;
};

// A planned stop follows: request a checkpoint from the workers now. Answer: Checkpointed, from the
// node that wrote it, or CannotSave.
struct Save {
  bool operator==(const Save&) const = default;
};

// The generation is over: end its workers. Answer: Stopped.
struct Stop {
  std::string reason;
  LookId look{};  // as in LookAgain; Stopped answers it
  // Hanging workers of this node: end them with hang.signal and a short grace.
  std::vector<LocalRank> hung{};

  bool operator==(const Stop&) const = default;
};

// The job is over for this agent. The agent ends its workers and exits with `exit_code`.
struct Finished {
  Outcome outcome = Outcome::kSucceeded;
  int exit_code = 0;
  std::string reason;
  int restarts_used = 0;
  // The newest root cause; nullopt: there is none, the job succeeded, or it goes on without this
  // agent.
  std::optional<RootCause> root_cause;
  // The other root causes, oldest first; at most kMaxEarlierCauses.
  std::vector<RootCause> earlier;
  FailedCheckpoints failed_checkpoints{};  // of the whole job
  std::vector<std::string> excluded{};     // excluded hosts (quarantine)
  bool job_is_over = false;  // the job is over for all agents; false: perhaps for this agent only

  bool operator==(const Finished&) const = default;
};

// The rendezvous does not count on this agent and its workers any more, for example because its
// lease ended. Other nodes may have its ranks. The agent kills its workers without grace and joins
// again.
struct Fenced {
  std::string reason;

  bool operator==(const Fenced&) const = default;
};

// This agent cannot be in the job, or the job was started again without it.
struct Refused {
  std::string reason;

  bool operator==(const Refused&) const = default;
};

// Read again which states the disk holds. When this node did so before, workers of a lost node
// might still have written to the same disk. No worker of this node runs. Answer: HeldStates.
struct LookAgain {
  LookId look;
  // The job's run id. With --start-anew, files of this run count, including files from before this
  // agent joined. 0: the job has none yet, or the rendezvous is too old.
  RunId run_id{};

  bool operator==(const LookAgain&) const = default;
};

// Shown to people on this node. No effect, no answer.
struct Warning {
  std::string text;

  bool operator==(const Warning&) const = default;
};

// Take the stacks of all workers of the generation now. Answer: StacksTaken.
struct TakeStacks {
  StackRequestId request;

  bool operator==(const TakeStacks&) const = default;
};

// The report of a hang, for people: the verdict, and the stacks of all ranks.
struct HangStacks {
  std::vector<std::string> verdict;  // lines; at most kMaxVerdictLines
  std::vector<std::string> missing;  // hosts that sent no stacks; at most kMaxMissingHosts
  // Never null.
  std::shared_ptr<const EncodedStackTree> tree = std::make_shared<EncodedStackTree>();
  std::string next{};  // what happens to the workers; one line

  bool operator==(const HangStacks& other) const {
    return verdict == other.verdict && missing == other.missing && *tree == *other.tree &&
           next == other.next;
  }
};

// Shared by all agents, because a job may have thousands. No answer.
struct HangReported {
  std::shared_ptr<const HangStacks> stacks;  // never null

  bool operator==(const HangReported& other) const { return *stacks == *other.stacks; }
};

using RendezvousMessage =
    std::variant<Waiting, HeartbeatAck, Assignment, Start, Save, Stop, Finished, Fenced, Refused,
                 Warning, LookAgain, TakeStacks, HangReported, LogOrder>;

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_TO_AGENT_H_
