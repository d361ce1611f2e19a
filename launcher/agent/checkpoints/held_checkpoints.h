// HeldCheckpoints: what this node holds of the training: in memory and on the disk, as its workers
// tell and as a look at the folder of checkpoints finds.
//
// Belongs to the agent and its loop's thread. Disks are read and written on other threads.
#ifndef DDPRUN_LAUNCHER_AGENT_CHECKPOINTS_HELD_CHECKPOINTS_H_
#define DDPRUN_LAUNCHER_AGENT_CHECKPOINTS_HELD_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "launcher/agent/checkpoints/checkpoint_scan.h"
#include "launcher/agent/checkpoints/owner_watch.h"
#include "launcher/config/job_config.h"
#include "launcher/core/node_states.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"
#include "rendezvous/core/types.h"
#include "worker/contract/checkpoint_owner.h"

namespace ddprun {

class HeldCheckpoints {
 public:
  // Both must outlive this object.
  HeldCheckpoints(const JobConfig* config, EventLoop* loop) : config_(*config), loop_(loop) {}

  NodeStates& states() { return states_; }
  // Workers of `generation` told of it.
  void OnSnapshot(Generation generation, std::int64_t step);
  void OnCheckpoint(Generation generation, std::int64_t step, const std::string& path);

  // Under Slurm and in a JobSet, which start a job again under its name and number that: calls
  // `superseded`, at most once, when the folder of checkpoints belongs to a later life of this job.
  void WatchOwner(std::function<void(std::string)> superseded);

  // Looks which states there are on the disk, and calls `done` however long it takes; at once where
  // there is no place to look at. A disk that does not answer gets a line in the log. `run_id`: of
  // the job, where this agent came when it had run already; else 0.
  void Scan(RunId run_id, std::function<void()> done);
  // What a scan in progress finds is not heard any more.
  void EndScan();

  // At the end of the job: releases the folder of checkpoints where `holder` holds it, and calls
  // `done` when it has, or when the disk does not answer. False: there is no folder.
  bool Release(const CheckpointOwner& holder, std::function<void()> done);

 private:
  void OnScanned(RunId run_id, ScanResult result);

  const JobConfig& config_;
  EventLoop* const loop_;
  NodeStates states_;
  std::optional<CheckpointScan> scan_;  // in progress
  EventLoop::TimerId scan_warning_ = 0;
  // With checkpoint.start_anew, from the first scan on: what was in the folder before the job.
  std::optional<std::set<std::string>> before_;
  RunId sorted_for_;                // the run whose files are out of before_; 0: none
  std::set<std::string> problems_;  // that were logged
  std::optional<OwnerWatch> owner_watch_;
  std::optional<OffLoop> releasing_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_CHECKPOINTS_HELD_CHECKPOINTS_H_
