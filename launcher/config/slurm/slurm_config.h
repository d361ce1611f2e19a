// What `ddprun slurm` asks Slurm for: the section `slurm` of a job file.
#ifndef DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_CONFIG_H_
#define DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_CONFIG_H_

#include <chrono>
#include <string>
#include <vector>

namespace ddprun {

// Empty, 0: not asked for; Slurm has its own defaults.
struct SlurmConfig {
  int nodes = 0;        // that train; 0: as the job's `nodes` says, else 1
  int spare_nodes = 0;  // beyond these, to take the place of one that fails
  std::string job_name{};
  std::string partition{};
  std::string account{};
  std::string qos{};
  std::string constraint{};
  std::string time{};  // the limit, as Slurm writes it: minutes, or days-hours:minutes:seconds
  std::string mem{};
  int gpus_per_node = 0;
  int cpus_per_task = 0;
  std::chrono::milliseconds warning{120'000};  // before the time limit, for a checkpoint
  bool requeue = true;
  std::vector<std::string> extra{};  // further options of sbatch
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_CONFIG_H_
