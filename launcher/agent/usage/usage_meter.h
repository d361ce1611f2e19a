// UsageMeter: what the workers of a node have used, added up over processes that come and go, so
// that it only grows. A process that begins and ends between two looks is missed.
//
// Thread-safe. One in an agent's life.
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
    Use all;                     // CPU and I/O of all workers so far; memory of the running ones
    std::vector<RankUse> ranks;  // of the running ones; a rank that moved to this node begins at 0
  };

  // Reads /proc of these workers and of what they have started, some 20 µs a process. Not on the
  // agent's loop: a node may have thousands.
  Reading Look(const std::vector<RankWorker>& workers);
  // What was read last, of all ranks.
  Use last() const;

 private:
  using Key = std::pair<pid_t, std::uint64_t>;  // ProcessId

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<Key, Use> processes_;  // that were there at the last look
  std::map<Rank, Use> ranks_;
  Use all_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_USAGE_USAGE_METER_H_
