// Join: an agent offers its node to a job, with the node's description and the states it holds.
#ifndef DDPRUN_RENDEZVOUS_CORE_MESSAGES_JOIN_H_
#define DDPRUN_RENDEZVOUS_CORE_MESSAGES_JOIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/failed_checkpoints.h"
#include "rendezvous/core/job_spec.h"
#include "rendezvous/core/progress.h"
#include "rendezvous/core/saved_state.h"
#include "rendezvous/core/types.h"

namespace ddprun {

struct NodeSpec {
  std::string host;  // the host's name
  // Other nodes connect to it. MASTER_ADDR if this is node rank 0 and the job names no other.
  std::string address;
  int worker_count = 1;
  // The node rank that this agent requests (--node-rank). In a job, either every agent requests a
  // rank or none does.
  std::optional<NodeRank> requested_rank{};

  bool operator==(const NodeSpec&) const = default;
};

// The program of an agent's workers. It shows when agents with the same job id run different
// programs. Argument values never leave the node.
struct WorkerProgram {
  std::string role;  // --role
  std::string name;  // the script's, module's or executable's base name; empty: unknown
  // A hash of each, in order; at most kMaxComparedArguments.
  std::vector<std::uint32_t> arguments{};

  bool operator==(const WorkerProgram&) const = default;
};

// The first message of every session, including a session that replaces a broken one.
// header.generation: the newest generation of the agent; −1: none. After a Join the agent repeats
// its messages of that generation (AssignmentAck unless workers run, each WorkerExited, Stopped).
// The rendezvous ignores the messages that it has received before.
struct Join {
  JobSpec job;
  NodeSpec node;
  int offered_port = 0;          // a free TCP port, held by the agent in case it gets rank 0
  bool workers_running = false;  // of header.generation
  bool returning = false;        // the rendezvous has answered this agent before
  // The complete states on this node, newest first.
  std::vector<SavedState> states{};
  bool states_pending = false;             // the disk has not answered yet: HeldStates follows
  FailedCheckpoints failed_checkpoints{};  // since this agent's start
  // Why this node must stay out of the job, from the check before the job; "": it can join. Answer:
  // Finished.
  std::string why_ineligible{};
  WorkerProgram program{};
  // The run id from this agent's Assignment. A rendezvous that has forgotten the job adopts it. 0:
  // none yet.
  RunId run_id{};
  bool can_look_again = false;  // the agent answers LookAgain; earlier versions do not
  // The newest LookAgain that the agent had received when it began to read `states` from the disk.
  // With states_pending: when it began the reading that is still in progress.
  LookId look{};
  // Stuck processes of this node. While one exists, the node stays out of every new generation.
  StuckProcesses stuck{};
  // The folder of the workers' log files on this node, for people; at most kMaxLogFolderBytes.
  // Empty: the agent accepts no LogOrder.
  std::string log_folder{};
  bool has_checkpoint_folder = false;  // its workers have a checkpoint folder
  // A part of the node's disk could not be read, and may hold a state that is not in `states`.
  bool states_incomplete = false;
  bool can_start_standbys = false;  // the agent obeys Waiting::start_standbys

  bool operator==(const Join&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_JOIN_H_
