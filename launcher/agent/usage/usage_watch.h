// UsageWatch: measures the resource use of this node's workers, off the loop, for heartbeats. Keeps
// the NodeBoard up to date.
//
// Belongs to the agent and its loop's thread.
#ifndef DDPRUN_LAUNCHER_AGENT_USAGE_USAGE_WATCH_H_
#define DDPRUN_LAUNCHER_AGENT_USAGE_USAGE_WATCH_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "launcher/agent/node_workers.h"
#include "launcher/agent/usage/node_board.h"
#include "launcher/agent/usage/usage_meter.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"
#include "launcher/text/parse_control.h"
#include "rendezvous/core/measures/node_usage.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class UsageWatch {
 public:
  static constexpr Duration kLookEvery = std::chrono::seconds(5);
  static constexpr Duration kTellEvery = std::chrono::seconds(1);  // to the board

  // `loop` and `workers` must outlive this object. `board` may be null.
  UsageWatch(EventLoop* loop, NodeWorkers* workers, std::shared_ptr<UsageMeter> meter,
             std::shared_ptr<NodeBoard> board);
  ~UsageWatch() { loop_->CancelTimer(timer_); }
  UsageWatch(const UsageWatch&) = delete;
  UsageWatch& operator=(const UsageWatch&) = delete;

  // The last measurement, for a heartbeat that is sent now. Starts the next measurement if it is
  // due.
  NodeUsage Tell(Duration round_trip);
  // Records on the board that a worker has saved a state.
  void OnSaved(const SavedMsg& saved);
  void OnSnapshotFailed() { ++failed_snapshots_; }

 private:
  void TellBoard();
  void LookIfDue(TimePoint now);

  EventLoop* const loop_;
  NodeWorkers* const workers_;
  const std::shared_ptr<UsageMeter> meter_;
  const std::shared_ptr<NodeBoard> board_;
  NodeBoard::Facts facts_;
  EventLoop::TimerId timer_ = 0;
  OffLoop looker_;
  TimePoint next_look_{};
  std::int64_t failed_snapshots_ = 0;  // since the agent's start
  bool looking_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_USAGE_USAGE_WATCH_H_
