// The processes of a rank. The one that agents start may be a shell or a wrapper, and the training
// a child of it; the training may wait for children in turn, as a DataLoader does.
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
  ProcessId process{};  // the one that speaks for the rank, else its worker
  pid_t worker = 0;     // as it was started; may be the same
};

// `pid`, its children, and their children; at most `most`.
std::vector<pid_t> WithDescendants(pid_t pid, std::size_t most);

// All processes of a rank, at most `most`: the one that speaks first, then what it has started,
// then the worker with the rest of what that has started.
std::vector<pid_t> ProcessesOf(pid_t speaker, pid_t worker, std::size_t most);

// The stacks of all ranks, each with at most kMostShownProcesses others of its processes. The
// ranks' own come first: they are what a verdict needs. Blocks as stacks::TakeStacks() does.
inline constexpr std::size_t kMostShownProcesses = 8;
StackTree TakeStacksOf(absl::Span<const RankProcess> ranks,
                       std::chrono::steady_clock::time_point deadline,
                       stacks::StackUrgency urgency);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_RANK_PROCESSES_H_
