// What has started this process, as far as it matters to the agent; not a setting, but found in the
// environment.
#ifndef DDPRUN_LAUNCHER_CONFIG_LAUNCH_PLACE_H_
#define DDPRUN_LAUNCHER_CONFIG_LAUNCH_PLACE_H_

#include <string>

namespace ddprun {

struct LaunchPlace {
  // A Slurm step or a container: what a process began here is ended as soon as that process ends.
  // The agent is a child of this process, which outlives it for the rendezvous.
  bool ends_with_process = false;
  // The job may be started again elsewhere under its name, with a higher requeue number, while this
  // process runs on.
  bool has_later_lives = false;
  bool slurm_requeues = false;  // Slurm chose name and requeue number, and can requeue the job
  std::string node_name{};      // where `hostname` need not say it; empty: it does
  int all_nodes = 0;            // that can ever be in the job; 0: that is not known
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_LAUNCH_PLACE_H_
