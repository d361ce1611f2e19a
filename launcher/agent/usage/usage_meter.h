// UsageMeter: sums up what the workers of a node have used. The sums of CPU time and I/O include
// ended processes, so they never decrease. They miss a process that begins and ends between two
// looks.
//
// Thread-safe. One per agent.
#ifndef DDPRUN_LAUNCHER_AGENT_USAGE_USAGE_METER_H_
#define DDPRUN_LAUNCHER_AGENT_USAGE_USAGE_METER_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "launcher/agent/usage/process_use.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class UsageMeter {
 public:
  struct RankWorker {
    Rank rank;
    pid_t worker = 0;
  };
  struct RankUse {
    Rank rank;
    Use use;
  };
  struct Reading {
    Use all;  // CPU and I/O of all workers so far; memory of the running workers
    // Of the running workers. A rank begins at 0 if the look before this one did not find it here.
    std::vector<RankUse> ranks;
  };

  // Reads /proc for these workers and their descendants, at most 64 processes per rank. This takes
  // some 20 µs per process. Do not call it on the agent's loop: a node may have thousands of
  // processes.
  Reading Look(const std::vector<RankWorker>& workers);
  // The sum over all ranks, as of the last Look().
  Use last() const;

 private:
  using Key = std::pair<pid_t, std::uint64_t>;  // ProcessId

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<Key, Use> processes_;  // seen at the last look
  std::map<Rank, Use> ranks_;
  Use all_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_USAGE_USAGE_METER_H_
