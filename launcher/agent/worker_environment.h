// The environment and the arguments of one worker, as pure functions of its place in the job.
#ifndef DDPRUN_LAUNCHER_AGENT_WORKER_ENVIRONMENT_H_
#define DDPRUN_LAUNCHER_AGENT_WORKER_ENVIRONMENT_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/config/job_config.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// The facts for a worker's environment, besides the inherited variables.
struct WorkerPlace {
  const JobConfig* config = nullptr;  // outlives this object
  Generation generation;
  Assignment assignment;  // of this node
  LocalRank local_rank;
  std::string run_dir;
  std::string error_file;
  std::string snapshot_dir;  // empty: none
  std::string control_socket;

  Rank rank() const { return Rank{assignment.first_rank.value + local_rank.value}; }
  // If the rendezvous does not count roles, all workers count as one role.
  RolePlace role_place() const {
    return assignment.role.world_size > 0 ? assignment.role
                                          : RolePlace{assignment.first_rank, assignment.world_size};
  }
};

// The run id as workers see it and write it into their files.
std::string RunIdText(RunId run_id);

// NAME=value for every variable, sorted by name. There are three sources, and each overrides those
// before it: `inherited` (as in environ), `configured` (the job file's env), and the variables that
// worker/contract/environment.h promises. A variable promised "unless set" does not override. Two
// kinds of variables are left out: ddprun's own variables about credentials (DDPRUN_TOKEN_FILE,
// ...) in `inherited`; and each promised variable for which this worker has no value, except
// "unless set" ones.
std::vector<std::string> WorkerEnvironment(const WorkerPlace& place,
                                           const std::vector<std::string>& inherited,
                                           const std::map<std::string, std::string>& configured);

// The environment of a warm standby for the local rank of `place`: as above, with DDPRUN_STANDBY=1.
// It lacks the variables that are known only when the standby becomes a worker (ranks, sizes of the
// job, master, generation, error file). `place.assignment` is not used.
std::vector<std::string> StandbyEnvironment(const WorkerPlace& place,
                                            const std::vector<std::string>& inherited,
                                            const std::map<std::string, std::string>& configured);

// `command` with every "${local_rank}" replaced by the local rank, as torchrun does.
std::vector<std::string> WorkerArguments(const std::vector<std::string>& command,
                                         LocalRank local_rank);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_WORKER_ENVIRONMENT_H_
