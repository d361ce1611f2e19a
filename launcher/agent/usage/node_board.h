// NodeBoard: facts of the node that the agent's loop publishes for other threads. Thread-safe: a
// lock is held only while the facts are copied.
#ifndef DDPRUN_LAUNCHER_AGENT_USAGE_NODE_BOARD_H_
#define DDPRUN_LAUNCHER_AGENT_USAGE_NODE_BOARD_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/agent/usage/usage_meter.h"
#include "launcher/os/output/log_totals.h"
#include "rendezvous/core/measures/histogram.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class NodeBoard {
 public:
  struct Facts {
    Generation generation{-1};
    std::vector<UsageMeter::RankWorker> workers;  // running
    LogTotals logs;
    Duration round_trip{};                  // of the last answered heartbeat; 0: none
    std::optional<TimePoint> heartbeat_at;  // when the last one was sent
    Histogram checkpoints;  // all since the agent's start: the time until each was durable
    Histogram snapshots;    // all since the agent's start: the time until each was in memory
  };

  void Set(Facts facts) {
    const std::lock_guard lock(mutex_);
    facts_ = std::move(facts);
  }
  Facts Get() const {
    const std::lock_guard lock(mutex_);
    return facts_;
  }

 private:
  mutable std::mutex mutex_;
  Facts facts_;  // guarded by mutex_
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_USAGE_NODE_BOARD_H_
