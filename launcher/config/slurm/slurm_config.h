// SlurmConfig: the section `slurm` of a job file, for `ddprun slurm`.
#ifndef DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_CONFIG_H_
#define DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_CONFIG_H_

#include <chrono>
#include <string>
#include <vector>

namespace ddprun {

// A member that is empty or 0 is left to Slurm, unless its comment says otherwise.
struct SlurmConfig {
  int nodes = 0;           // nodes that train; 0: from the job's `nodes`, else 1
  int spare_nodes = 0;     // further nodes that replace failed ones
  std::string job_name{};  // empty: the file's name
  std::string partition{};
  std::string account{};
  std::string qos{};
  std::string constraint{};
  std::string time{};  // the time limit in Slurm's syntax: minutes, or days-hours:minutes:seconds
  std::string mem{};
  int gpus_per_node = 0;
  int cpus_per_task = 0;
  std::chrono::milliseconds warning{120'000};  // before the time limit, for a checkpoint; 0: none
  bool requeue = true;
  std::vector<std::string> extra{};  // further options of sbatch
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_CONFIG_H_
