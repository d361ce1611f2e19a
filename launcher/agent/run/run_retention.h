// Removes folders of earlier runs of a job on this host from the log folder: logs.keep_runs.
//
// A folder is removed only if four conditions hold: it has the name of a run of this job; this user
// owns it; its owner file names this host; no agent holds its lock. Everything else in the log
// folder stays, such as runs of other hosts, and runs of an older ddprun that made no owner file.
// Two nodes on one host count their ended runs together. Other runs in progress are not counted.
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
  int number = 0;  // how many runs are kept, this one included; 0: all
};

struct RemovedRuns {
  std::vector<std::string> paths;
  absl::Status error;  // the first failure
};

// Removes the oldest runs. A folder that was only partly removed is still recognized as a run.
RemovedRuns RemoveOldRuns(const RunsToKeep& keep);

// Calls RemoveOldRuns on a separate thread. The destructor waits for a slow disk, at most a second;
// nothing else waits.
class RunRetention {
 public:
  using Done = std::function<void(const RemovedRuns&)>;
  // Calls `done` on that thread, once, if `keep.number` is not 0. If the disk is slow, the call
  // comes after this object's destruction, or never, if the process ends first.
  RunRetention(RunsToKeep keep, Done done);
  ~RunRetention();
  RunRetention(const RunRetention&) = delete;
  RunRetention& operator=(const RunRetention&) = delete;

 private:
  TaskQueue tasks_{"ddprun-old-runs"};
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_RUN_RUN_RETENTION_H_
