// The processes of a rank. The worker that the agent starts may be a shell or a wrapper, with the
// training as its child. The training may also have children, for example of a DataLoader.
//
// Reads procfs, which never waits for a disk. Any thread.
#ifndef DDPRUN_LAUNCHER_AGENT_RANK_PROCESSES_H_
#define DDPRUN_LAUNCHER_AGENT_RANK_PROCESSES_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "launcher/os/process/process_id.h"
#include "launcher/stacks/take_stacks.h"
#include "rendezvous/core/types.h"

namespace ddprun {

struct RankProcess {
  Rank rank;
  ProcessId process{};  // the process that reports for the rank, else the worker
  pid_t worker = 0;     // the process that the agent started; may be the same
};

// `pid` and all its descendants, at most `most` processes.
std::vector<pid_t> WithDescendants(pid_t pid, std::size_t most);

// All processes of a rank, at most `most`, in this order: the speaker (the process that reports
// for the rank), the speaker's descendants, the worker, the worker's other descendants.
std::vector<pid_t> ProcessesOf(pid_t speaker, pid_t worker, std::size_t most);

// The stacks of the process that reports for each rank, and of at most kMostShownProcesses more
// processes of the rank. The processes that report come first, because the verdict needs them.
// Blocks like stacks::TakeStacks().
inline constexpr std::size_t kMostShownProcesses = 8;
StackTree TakeStacksOf(absl::Span<const RankProcess> ranks,
                       std::chrono::steady_clock::time_point deadline,
                       stacks::StackUrgency urgency);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_RANK_PROCESSES_H_
