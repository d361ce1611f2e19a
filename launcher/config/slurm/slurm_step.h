// Facts about a Slurm step from the environment of its tasks, and the job settings that follow from
// them. So `srun ddprun ./train` needs no flag. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_STEP_H_
#define DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_STEP_H_

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "launcher/config/host.h"
#include "launcher/config/job_draft.h"

namespace ddprun {

struct SlurmStep {
  std::string job_id;
  std::string node_name;  // Slurm's name of this node
  int nodes = 1;
  int node_id = 0;         // of this node in the step, from 0
  std::string first_host;  // Slurm's name of the node with id 0
  bool one_task_each = true;
  std::optional<int> gpus_on_node;  // GPUs given to this step, if GPUs were requested
};

// The Slurm step of this process; nullopt outside of a step, for example in a batch script without
// srun. The error names a variable with an unexpected value.
absl::StatusOr<std::optional<SlurmStep>> FindSlurmStep(const Host& host);

// The first name of a host list in Slurm's short form: "rack[2-3]n[07,09],x" → "rack2n07".
std::string FirstHost(absl::string_view hosts);

// The port of this job's rendezvous. The next three ports are its spare ports, in case it is taken.
// All four are below the kernel's ports for clients (32768 and up).
int SlurmPort(absl::string_view job_id);
inline constexpr int kSlurmSparePorts = 3;
// Sets in `draft` the settings that the user left open: the rendezvous, its id and MUNGE, the
// nodes, this node's rank, the workers, and time limits that fit into Slurm's KillWait. It appends
// the Slurm job's id to an id that the user gave. If the draft names the rendezvous, a master
// address or a node rank, it sets only the workers, and also MUNGE if one of the nodes starts the
// rendezvous. In a step of one node it sets no rendezvous. The error is for the user.
absl::Status ApplySlurm(const SlurmStep& step, const Host& host, bool insecure, JobDraft* draft);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_STEP_H_
