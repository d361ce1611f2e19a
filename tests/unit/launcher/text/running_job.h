// A running job, for tests of the displays of jobs.
#ifndef DDPRUN_TESTS_UNIT_LAUNCHER_TEXT_RUNNING_JOB_H_
#define DDPRUN_TESTS_UNIT_LAUNCHER_TEXT_RUNNING_JOB_H_

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/job_status.h"

namespace ddprun {

// Has nodes n0, n1, ... with 8 workers each, and is at step 120 of its third generation.
inline JobStatus RunningJob(const std::string& name, int nodes) {
  JobStatus job;
  job.job = name;
  job.generation = Generation{2};
  job.state = JobState::kRunning;
  job.since = std::chrono::seconds(3700);
  job.spec.min_nodes = 2;
  job.spec.max_nodes = nodes;
  job.spec.max_restarts = 3;
  job.restarts_used = 1;
  job.restarts_left = 2;
  job.world_size = 8 * nodes;
  job.step = 120;
  for (int i = 0; i < nodes; ++i) {
    job.nodes.push_back({absl::StrCat("n", i), absl::StrCat("10.0.0.", i), "running", NodeRank{i},
                         Rank{8 * i}, 8, std::chrono::seconds(0), 120});
  }
  return job;
}

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_LAUNCHER_TEXT_RUNNING_JOB_H_
