// What agents say to the rendezvous.
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

// The agent's loop is alive. Answer: HeartbeatAck.
struct Heartbeat {
  std::int64_t sent_at = 0;                // by the agent's own clock; comes back as it is
  std::optional<std::int64_t> step;        // the newest that its workers reported in the generation
  std::vector<SavedState> states{};        // as in Join, where it has changed; empty: as it was
  FailedCheckpoints failed_checkpoints{};  // as in Join, where there are more; none: as it was
  std::optional<NodeProgress> progress{};  // of the workers of the generation; not set: none run
  StuckProcesses stuck{};                  // as in Join
  // By the agent that serves the store of the generation; not set: nobody has come, or all have.
  std::optional<StoreArrivals> arrivals{};
  std::optional<NodeUsage> usage{};  // not set: of an earlier version

  bool operator==(const Heartbeat&) const = default;
};

// The assignment was received and everything but the spawn is done.
struct AssignmentAck {
  bool operator==(const AssignmentAck&) const = default;
};

// A checkpoint of this step is durable.
struct Checkpointed {
  std::int64_t step = 0;

  bool operator==(const Checkpointed&) const = default;
};

// A checkpoint of this step is on a disk and not whole. For people; no answer.
struct CheckpointDamaged {
  std::int64_t step = 0;
  std::string reason;  // which file, and why; at most kMaxFailureReasonBytes

  bool operator==(const CheckpointDamaged&) const = default;
};

// Answers a Save where no worker of the node speaks the control socket.
struct CannotSave {
  bool operator==(const CannotSave&) const = default;
};

// No worker of the generation is left on this node, but for those in `stuck`; the agent waits for
// the next assignment.
struct Stopped {
  int offered_port = 0;
  std::optional<std::int64_t> last_step;  // the newest that its workers reported in the generation
  // By its node's wall clock, Unix time: when the agent had ended its workers because it was cut
  // off from the rendezvous. 0: they ended otherwise.
  std::int64_t fenced_at_ms = 0;
  std::vector<SavedState> states{};        // as in Join: what the next generation can begin with
  FailedCheckpoints failed_checkpoints{};  // as in Join
  // How long the start took here: from the spawn until every worker was at work. Not set: that was
  // not seen.
  std::optional<Duration> start{};
  bool states_pending = false;  // as in Join
  LookId look{};                // as in Join
  StuckProcesses stuck{};       // as in Join
  // The last collectives of its workers, as far as they have told; at most
  // EnteredCall::kMaxOfANode.
  std::vector<EnteredCall> calls{};

  bool operator==(const Stopped&) const = default;
};

// What this node holds, now that its disk has answered; after a Join or Stopped with
// states_pending, and after LookAgain. No answer.
struct HeldStates {
  std::vector<SavedState> states{};  // as in Join
  LookId look{};                     // as in Join

  bool operator==(const HeldStates&) const = default;
};

// This node is being taken away: its scheduler has sent the agent SIGTERM. Asks for a checkpoint
// and then to be let go: with a Stop and a Finished. Repeated on each session.
struct Preempted {
  std::string reason;  // "n3 got SIGTERM"

  bool operator==(const Preempted&) const = default;
};

// A worker of the generation looks for torch's store at another address than MASTER_PORT, where
// nobody listens as long as an agent serves the store. Repeated on each session. No answer.
struct StoreElsewhere {
  std::string where;  // "localhost:29501"

  bool operator==(const StoreElsewhere&) const = default;
};

// The restart into the header's generation is over on this node. No answer.
struct RestartTimed {
  RestartTimes times;  // its generation is the header's

  bool operator==(const RestartTimed&) const = default;
};

// The stacks of this node's workers, by global rank. Answers TakeStacks. No answer.
struct StacksTaken {
  StackRequestId request;
  std::shared_ptr<const EncodedStackTree> tree =
      std::make_shared<EncodedStackTree>();  // never null
  // Instead of `tree`, as it has come: whoever merges it unpacks it. Null: `tree` it is.
  std::shared_ptr<const std::string> packed{};

  bool operator==(const StacksTaken& other) const {
    const auto same = [](const auto& a, const auto& b) { return a && b ? *a == *b : a == b; };
    return request == other.request && *tree == *other.tree && same(packed, other.packed);
  }
};

// The agent is going away on purpose and its workers are gone.
struct Leave {
  std::string reason;  // "SIGTERM"
  int exit_code = 0;   // what this agent will exit with

  bool operator==(const Leave&) const = default;
};

using AgentMessage = std::variant<Join, Heartbeat, AssignmentAck, WorkerExited, Checkpointed,
                                  CannotSave, Stopped, Leave, RestartTimed, Preempted, HeldStates,
                                  CheckpointDamaged, StacksTaken, StoreElsewhere, LogPiece>;

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_TO_RENDEZVOUS_H_
