// A worker's end, and what ended a generation.
#ifndef DDPRUN_RENDEZVOUS_CORE_MESSAGES_FAILURE_H_
#define DDPRUN_RENDEZVOUS_CORE_MESSAGES_FAILURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/exit_status.h"
#include "rendezvous/core/types.h"
#include "rendezvous/stacks/encoded_stack_tree.h"

namespace ddprun {

// A worker ended with any result, or could not be started. Workers that end after the agent has
// begun to end the generation are not reported.
struct WorkerExited {
  Rank rank;
  LocalRank local_rank;
  int pid = 0;
  ExitStatus status;
  std::optional<std::int64_t> step;  // last STEP it reported
  // Of its ERROR report (worker/contract/control.h); if it did not start: root_cause.h; or empty.
  std::string error_kind;
  // Text of that report, of its error file, or why the worker did not start.
  std::string error_text;
  std::vector<std::string> stderr_tail;  // last lines of its stderr, oldest first
  std::int64_t ended_at_ms = 0;          // Unix time by the node's clock; for people only
  bool oom_killed = false;               // killed by the kernel's OOM killer

  bool operator==(const WorkerExited&) const = default;
};

// A worker's end, and where it happened.
struct WorkerFailure {
  std::string host;
  NodeRank node_rank;
  Generation generation;
  WorkerExited exit;

  bool operator==(const WorkerFailure&) const = default;
};

// What ended a generation. A generation that failed has exactly one.
struct RootCause {
  enum class Kind {
    kWorkerFailed,     // a worker died, or could not be started
    kWorkerLeftEarly,  // a worker exited 0 while its peers still needed it
    kNodeLost,         // an agent was killed or cut off, or has left this generation
    kNodeLeft,         // an agent has left the job
    kHung,             // no rank moved; `failure`: the worker that the others waited for
  };
  Kind kind = Kind::kWorkerFailed;
  WorkerFailure failure;  // for a node: only host, node rank and generation
  // For a node or a hang: why. For a failed worker: which collectives did not match.
  std::string reason;
  // The other workers that failed, in the order of their reports; at most kMaxVictims, without
  // stderr_tail.
  std::vector<WorkerFailure> victims;
  // kHung: the frames of the worker's main thread, innermost first; at most kMaxCauseFrames, with
  // names of at most kMaxCauseNameBytes.
  std::vector<StackFrame> frames{};
  std::string phase{};  // kHung: the worker's phase, as the program names it; empty: training
  Duration still{};     // kHung: since the worker moved last, or started

  bool operator==(const RootCause&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_FAILURE_H_
