// Join: an agent offers its node to a job, and says what the node is and holds.
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
  // Where the workers' log files lie on this node, for people; at most kMaxLogFolderBytes. Empty:
  // the agent takes no LogOrder.
  std::string log_folder{};
  bool has_checkpoint_folder = false;  // its workers are given one

  bool operator==(const Join&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_JOIN_H_
