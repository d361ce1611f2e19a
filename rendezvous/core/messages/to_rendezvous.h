// The messages of agents to the rendezvous.
#ifndef DDPRUN_RENDEZVOUS_CORE_MESSAGES_TO_RENDEZVOUS_H_
#define DDPRUN_RENDEZVOUS_CORE_MESSAGES_TO_RENDEZVOUS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/failed_checkpoints.h"
#include "rendezvous/core/measures/node_usage.h"
#include "rendezvous/core/measures/restart_times.h"
#include "rendezvous/core/messages/failure.h"
#include "rendezvous/core/messages/join.h"
#include "rendezvous/core/messages/logs.h"
#include "rendezvous/core/progress.h"
#include "rendezvous/core/saved_state.h"
#include "rendezvous/core/types.h"
#include "rendezvous/stacks/encoded_stack_tree.h"

namespace ddprun {

// The agent is alive. Answer: HeartbeatAck.
struct Heartbeat {
  std::int64_t sent_at = 0;          // by the agent's clock; HeartbeatAck returns it unchanged
  std::optional<std::int64_t> step;  // highest step that its workers reported
  std::vector<SavedState> states{};  // as in Join, if changed; empty: unchanged
  FailedCheckpoints failed_checkpoints{};  // as in Join, if increased; 0: unchanged
  std::optional<NodeProgress> progress{};  // of the generation's workers; nullopt: none runs
  StuckProcesses stuck{};                  // as in Join
  // From the agent that serves the generation's store; nullopt: no rank has connected, or all ranks
  // have.
  std::optional<StoreArrivals> arrivals{};
  std::optional<NodeUsage> usage{};  // nullopt: the agent has an earlier version
  bool can_stand_by = false;         // a worker has shown that its program can be a warm standby

  bool operator==(const Heartbeat&) const = default;
};

// The agent has its assignment. If it serves torch's store: the store is open, or cannot be opened.
struct AssignmentAck {
  bool operator==(const AssignmentAck&) const = default;
};

// A checkpoint of this step is durable.
struct Checkpointed {
  std::int64_t step = 0;

  bool operator==(const Checkpointed&) const = default;
};

// A checkpoint file of this step is damaged. For people; no answer.
struct CheckpointDamaged {
  std::int64_t step = 0;
  std::string reason;  // which file, and why; at most kMaxFailureReasonBytes

  bool operator==(const CheckpointDamaged&) const = default;
};

// Answers Save: no worker of the node can make a checkpoint on request.
struct CannotSave {
  bool operator==(const CannotSave&) const = default;
};

// No worker of the generation is left on this node, except the processes in `stuck`. The agent
// waits for its next assignment.
struct Stopped {
  int offered_port = 0;
  std::optional<std::int64_t> last_step;  // highest step that its workers reported
  // When the last worker of a fenced agent had ended, as Unix time by the node's clock. 0: the
  // agent was not fenced, or had no worker.
  std::int64_t fenced_at_ms = 0;
  std::vector<SavedState> states{};        // as in Join
  FailedCheckpoints failed_checkpoints{};  // as in Join
  // Duration of the start here: from the spawn until every worker was at work. nullopt: not
  // observed.
  std::optional<Duration> start{};
  bool states_pending = false;  // as in Join
  LookId look{};                // as in Join
  StuckProcesses stuck{};       // as in Join
  // The last collectives that its workers reported; at most EnteredCall::kMaxOfANode.
  std::vector<EnteredCall> calls{};
  bool states_incomplete = false;  // as in Join

  bool operator==(const Stopped&) const = default;
};

// The states on this node, now that its disk has answered. Follows a Join or Stopped with
// states_pending, and answers LookAgain. No answer.
struct HeldStates {
  std::vector<SavedState> states{};  // as in Join
  LookId look{};                     // as in Join
  bool states_incomplete = false;    // as in Join

  bool operator==(const HeldStates&) const = default;
};

// The scheduler takes this node away: it has sent SIGTERM to the agent. The agent asks for a
// checkpoint, and then for Stop and Finished. Repeated on each session.
struct Preempted {
  std::string reason;  // "n3 got SIGTERM"

  bool operator==(const Preempted&) const = default;
};

// A process of the job looks for torch's store at another address than MASTER_PORT. While an
// agent serves the store, nobody listens at that address. Repeated on each session. No answer.
struct StoreElsewhere {
  std::string where;  // "localhost:29501"

  bool operator==(const StoreElsewhere&) const = default;
};

// The agent's answer to Waiting::start_standbys: all standbys wait, one has ended or cannot be
// started, or kStandbysLimit is over. Answer: Waiting, if the node must still wait.
struct StandbysReady {
  bool operator==(const StandbysReady&) const = default;
};

// The restart into the header's generation has ended on this node. No answer.
struct RestartTimed {
  RestartTimes times;  // its generation is the header's

  bool operator==(const RestartTimed&) const = default;
};

// Answers TakeStacks: the stacks of this node's workers, by global rank.
struct StacksTaken {
  StackRequestId request;
  std::shared_ptr<const EncodedStackTree> tree =
      std::make_shared<EncodedStackTree>();  // never null
  // If not null: the packed tree as received, instead of `tree`. StackWorker's thread unpacks it.
  std::shared_ptr<const std::string> packed{};

  bool operator==(const StacksTaken& other) const {
    const auto same = [](const auto& a, const auto& b) { return a && b ? *a == *b : a == b; };
    return request == other.request && *tree == *other.tree && same(packed, other.packed);
  }
};

// The agent leaves the job, and its workers are gone.
struct Leave {
  std::string reason;  // "SIGTERM"
  int exit_code = 0;   // the exit code of this agent

  bool operator==(const Leave&) const = default;
};

using AgentMessage =
    std::variant<Join, Heartbeat, AssignmentAck, WorkerExited, Checkpointed, CannotSave, Stopped,
                 Leave, RestartTimed, Preempted, HeldStates, CheckpointDamaged, StacksTaken,
                 StoreElsewhere, LogPiece, StandbysReady>;

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_TO_RENDEZVOUS_H_
