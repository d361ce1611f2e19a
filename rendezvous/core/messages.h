// What agents and the rendezvous say to each other, as plain structs. The wire form is
// proto/ddprun/v1/rendezvous.proto; rendezvous/service and rendezvous/client translate, and nothing
// else knows protobuf.
#ifndef DDPRUN_RENDEZVOUS_CORE_MESSAGES_H_
#define DDPRUN_RENDEZVOUS_CORE_MESSAGES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/exit_status.h"
#include "rendezvous/core/failed_checkpoints.h"
#include "rendezvous/core/job_spec.h"
#include "rendezvous/core/outcome.h"
#include "rendezvous/core/progress.h"
#include "rendezvous/core/restart_times.h"
#include "rendezvous/core/saved_state.h"
#include "rendezvous/core/types.h"
#include "rendezvous/stacks/encoded_stack_tree.h"

namespace ddprun {

// On every message, both ways. A receiver drops what does not fit its own, once, on entry.
struct Header {
  std::string job;                   // --rdzv-id
  std::uint32_t requeue_number = 0;  // 0, or Slurm's restart count
  Generation generation;             // the one the sender acts in
  AgentId agent_id;                  // the agent's, whichever way the message goes

  bool operator==(const Header&) const = default;
};

// ---- agent → rendezvous ----

struct NodeSpec {
  std::string host;     // name for people
  std::string address;  // what other nodes connect to; becomes MASTER_ADDR on node rank 0
  int worker_count = 1;
  // The node rank that this agent asks for (--node-rank). In a job either every agent does or none.
  std::optional<NodeRank> requested_rank{};

  bool operator==(const NodeSpec&) const = default;
};

// What an agent's workers run, told so that two agents with one job id and different programs are
// noticed. No value of an argument leaves the node.
struct WorkerProgram {
  std::string role;  // --role
  std::string name;  // the script's, module's or executable's base name; empty: unknown
  std::vector<std::uint32_t> arguments{};  // a hash of each, in their order; the first 256

  bool operator==(const WorkerProgram&) const = default;
};

// First message of every session, also of one that replaces a session that broke; header.generation
// is the one the agent is in. An agent that was in a generation repeats after it what it had said
// there (AssignmentAck, each WorkerExited, Stopped): what the rendezvous knows already, it ignores.
struct Join {
  JobSpec job;
  NodeSpec node;
  int offered_port = 0;          // a TCP port that this agent holds for rank 0, should it be here
  bool workers_running = false;  // of header.generation
  bool returning = false;        // this agent was heard in this job before
  // What this node holds of the training: complete states, the newest first.
  std::vector<SavedState> states{};
  bool states_pending = false;             // its disk has not answered yet: HeldStates follows
  FailedCheckpoints failed_checkpoints{};  // in this agent's life
  // Why this node must not take part, as it found before the job; empty: it may. Answer: Finished.
  std::string why_ineligible{};
  WorkerProgram program{};
  // That this agent was told in an Assignment: a rendezvous that has forgotten the job goes on with
  // it. 0: none yet.
  RunId run_id{};
  bool can_look_again = false;  // it answers LookAgain; earlier versions do not know it
  LookId look{};                // of `states`, or of the look that has yet to end
  // Of this node. While there is one, the node is in no generation.
  StuckProcesses stuck{};

  bool operator==(const Join&) const = default;
};

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

  bool operator==(const Heartbeat&) const = default;
};

// The assignment was received and everything but the spawn is done.
struct AssignmentAck {
  bool operator==(const AssignmentAck&) const = default;
};

// A worker ended by itself, with whatever result. Workers that the agent ended are not reported.
struct WorkerExited {
  Rank rank;
  LocalRank local_rank;
  int pid = 0;
  ExitStatus status;
  std::optional<std::int64_t> step;  // last STEP it reported
  std::string error_kind;            // of its ERROR report (worker/contract/control.h), or empty
  std::string error_text;            // of that, of its error file, or why it did not start
  std::vector<std::string> stderr_tail;  // its last lines, oldest first
  std::int64_t ended_at_ms = 0;          // by its node's wall clock, Unix time; for people only
  bool oom_killed = false;               // by the kernel, for want of memory

  bool operator==(const WorkerExited&) const = default;
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

  bool operator==(const StacksTaken& other) const {
    return request == other.request && *tree == *other.tree;
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
                                  CheckpointDamaged, StacksTaken, StoreElsewhere>;

// ---- rendezvous → agent ----

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

// A worker's end, with where it happened.
struct WorkerFailure {
  std::string host;
  NodeRank node_rank;
  Generation generation;
  WorkerExited exit;

  bool operator==(const WorkerFailure&) const = default;
};

// What ended a generation. There is exactly one for each that did not succeed.
struct RootCause {
  enum class Kind {
    kWorkerFailed,     // a worker died, or could not be started
    kWorkerLeftEarly,  // a worker exited 0 while its peers still needed it
    kNodeLost,         // an agent was killed, or was not heard for the length of the lease
    kNodeLeft,         // an agent was told to end
    kHung,             // no rank moved, and a worker was what the others waited for
  };
  Kind kind = Kind::kWorkerFailed;
  WorkerFailure failure;  // for a node: its host, rank and generation, and no worker
  // Why: for a node, or a worker that hung. For one that failed: which collectives did not match.
  std::string reason;
  // Workers that failed because of it, in the order in which the rendezvous heard of them; the
  // first 64, without their stderr_tail.
  std::vector<WorkerFailure> victims;
  // Where the main thread of a worker that hung was, the innermost frame first; at most
  // kMaxCauseFrames, with names of at most kMaxCauseNameBytes.
  std::vector<StackFrame> frames{};
  std::string phase{};  // that it was in, as its program names it; empty: training
  Duration still{};     // since it moved last

  bool operator==(const RootCause&) const = default;
};

// The job is over, for good. The agent ends what still runs and exits with `exit_code`.
struct Finished {
  Outcome outcome = Outcome::kSucceeded;
  int exit_code = 0;
  std::string reason;
  int restarts_used = 0;
  std::optional<RootCause> root_cause;     // of the last generation, unless it succeeded
  std::vector<RootCause> earlier;          // of the generations before, oldest first; the last 64
  FailedCheckpoints failed_checkpoints{};  // of the whole job
  std::vector<std::string> left_out{};     // hosts, because their workers failed again and again
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
                 Warning, LookAgain, TakeStacks, HangReported>;

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_H_
