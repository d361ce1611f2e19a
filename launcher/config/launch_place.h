// LaunchPlace: how this process was started, as far as it matters to the agent. It comes from the
// environment and is no setting.
#ifndef DDPRUN_LAUNCHER_CONFIG_LAUNCH_PLACE_H_
#define DDPRUN_LAUNCHER_CONFIG_LAUNCH_PLACE_H_

#include <string>

namespace ddprun {

struct LaunchPlace {
  // In a Slurm step or a container: when the started process ends, all its descendants are killed.
  // So the agent runs as a child of the started process (task_shim.h). The started process ends
  // only after the agent and the rendezvous.
  bool ends_with_process = false;
  // The job may be started elsewhere under the same name, with a higher requeue number, while this
  // process still runs.
  bool has_later_lives = false;
  bool slurm_requeues = false;  // Slurm chose name and requeue number, and can requeue the job
  std::string node_name{};      // if it may differ from `hostname`; empty: use `hostname`
  int all_nodes = 0;            // how many nodes can ever be in the job; 0: not known
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_LAUNCH_PLACE_H_
