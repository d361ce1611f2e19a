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

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_FAILURE_H_
