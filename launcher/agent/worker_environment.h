// The environment and the arguments of one worker: a pure function of its place in the job.
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

// All that the environment of a worker is made of, beside what it inherits.
struct WorkerPlace {
  const JobConfig* config = nullptr;  // what is set for the job; outlives this
  Generation generation;
  Assignment assignment;  // of this node
  LocalRank local_rank;
  std::string run_dir;
  std::string error_file;
  std::string snapshot_dir;  // empty: none
  std::string control_socket;

  Rank rank() const { return Rank{assignment.first_rank.value + local_rank.value}; }
  // A rendezvous that counts no roles has one for all workers.
  RolePlace role_place() const {
    return assignment.role.world_size > 0 ? assignment.role
                                          : RolePlace{assignment.first_rank, assignment.world_size};
  }
};

// As workers know it, and say whose files are whose.
std::string RunIdText(RunId run_id);

// NAME=value for every variable, sorted by name: `inherited` (as in environ), over it `configured`
// (the job file's env), over it what worker/contract/environment.h promises. What is promised
// "unless set" is left to the other two. What ddprun itself reads of `inherited` about credentials
// is left out.
std::vector<std::string> WorkerEnvironment(const WorkerPlace& place,
                                           const std::vector<std::string>& inherited,
                                           const std::map<std::string, std::string>& configured);

// Of a warm standby for the local rank of `place`: the same without what is known only when it
// becomes a worker (ranks, sizes of the job, master, generation, error file), and DDPRUN_STANDBY=1.
// `place.assignment` is not used.
std::vector<std::string> StandbyEnvironment(const WorkerPlace& place,
                                            const std::vector<std::string>& inherited,
                                            const std::map<std::string, std::string>& configured);

// `command` with every "${local_rank}" replaced by the local rank, as torchrun does.
std::vector<std::string> WorkerArguments(const std::vector<std::string>& command,
                                         LocalRank local_rank);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_WORKER_ENVIRONMENT_H_
