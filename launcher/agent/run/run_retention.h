// The run folders that earlier runs of a job left in the folder of logs on this node, and which of
// them go: logs.keep_runs.
//
// A folder is removed where all of this is so: its name is that of a run of this job, it is this
// user's, its owner file names this host, and no agent holds its lock. Whatever else is in the
// folder of logs, another node's runs and those of versions without an owner file included, is left
// alone.
#ifndef DDPRUN_LAUNCHER_AGENT_RUN_RUN_RETENTION_H_
#define DDPRUN_LAUNCHER_AGENT_RUN_RUN_RETENTION_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "launcher/agent/run/run_directory.h"
#include "worker/contract/task_queue.h"

namespace ddprun {

struct RunsToKeep {
  std::string log_dir;
  std::string job;
  std::string host;
  int number = 0;  // the newest, with this run's own; 0: all
};

struct RemovedRuns {
  std::vector<std::string> paths;
  absl::Status error;  // of the first that could not be removed
};

// Removes the oldest. One that is removed in part only is still known to be a run's.
RemovedRuns RemoveOldRuns(const RunsToKeep& keep);

// Does it on a thread of its own: nothing waits for a disk that is slow, but the end of this
// object, for at most a second.
class RunRetention {
 public:
  using Done = std::function<void(const RemovedRuns&)>;
  // `done` is called on that thread, once, where a number is given; it may outlive this object.
  RunRetention(RunsToKeep keep, Done done);
  ~RunRetention();
  RunRetention(const RunRetention&) = delete;
  RunRetention& operator=(const RunRetention&) = delete;

 private:
  TaskQueue tasks_{"ddprun-old-runs"};
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_RUN_RUN_RETENTION_H_
