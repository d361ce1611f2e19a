// HeldCheckpoints: the states of the training that this node holds, in memory and on disk. Workers
// report them, and a scan of the checkpoint folder finds them.
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
  // Workers of `generation` reported this state.
  void OnSnapshot(Generation generation, std::int64_t step);
  void OnCheckpoint(Generation generation, std::int64_t step, const std::string& path);

  // Calls `superseded`, at most once, when the checkpoint folder belongs to a later life of this
  // job (owner_watch.h). Does nothing outside of Slurm and JobSets, because only these number the
  // lives of a job.
  void WatchOwner(std::function<void(std::string)> superseded);

  // Scans the disk for states. Calls `done` unless EndScan() or another Scan() comes first. Calls
  // `done` at once if there is nothing to scan. Logs a line if the disk does not answer within 1 s,
  // and keeps waiting. `run_id`: the job's run id if the job ran before this agent joined; else 0.
  void Scan(RunId run_id, std::function<void()> done);
  // Drops a scan in progress; its `done` is not called.
  void EndScan();

  // At the end of the job: releases the checkpoint folder if `holder` holds it. Calls `done` when
  // the release has ended, and also after 1 s, so possibly twice. False: there is no folder.
  bool Release(const CheckpointOwner& holder, std::function<void()> done);

 private:
  void OnScanned(RunId run_id, ScanResult result);

  const JobConfig& config_;
  EventLoop* const loop_;
  NodeStates states_;
  std::optional<CheckpointScan> scan_;  // in progress
  EventLoop::TimerId scan_warning_ = 0;
  // With checkpoint.start_anew, from the first scan on: the files that were in the folder before
  // the job.
  std::optional<std::set<std::string>> before_;
  RunId sorted_for_;                // the run whose files were removed from before_; 0: none
  std::set<std::string> problems_;  // already logged
  std::optional<OwnerWatch> owner_watch_;
  std::optional<OffLoop> releasing_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_CHECKPOINTS_HELD_CHECKPOINTS_H_
