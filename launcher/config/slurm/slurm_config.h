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

// What this process is in a Slurm step; not a setting, but found in the environment.
struct SlurmTask {
  // Slurm ends what a task began on its node as soon as the task's process ends: the agent is a
  // child of this process, which outlives it for the rendezvous.
  bool is_task = false;
  std::string node_name{};  // Slurm's, which `hostname` need not say; empty: not under Slurm
  int all_nodes = 0;        // that can ever be in the job; 0: that is not known
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_CONFIG_H_
