// What Slurm tells a task of a step about the step, and the settings of a job that follow from it:
// `srun ddprun ./train` needs no flag. Pure.
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
  std::string node_name;  // Slurm's, of this node
  int nodes = 1;
  int node_id = 0;         // of this node in the step, from 0
  std::string first_host;  // of the node whose id is 0
  bool one_task_each = true;
  std::optional<int> gpus_on_node;  // that this step was given, where GPUs were asked for
};

// The step that this process is a task of; nullopt outside of one, as in a batch script without
// srun. The error names the variable that is not what Slurm would set.
absl::StatusOr<std::optional<SlurmStep>> FindSlurmStep(const Host& host);

// The first name in Slurm's short form of a list of hosts: "rack[2-3]n[07,09],x" → "rack2n07".
std::string FirstHost(absl::string_view hosts);

// The port where the rendezvous of this job listens; the three after it are its too, in case that
// one is taken. Below the ports that the kernel gives to clients (32768 and up).
int SlurmPort(absl::string_view job_id);
inline constexpr int kSlurmSparePorts = 3;
// Sets in `draft` what its user has left open: the rendezvous, its id and MUNGE, the nodes, this
// node's rank, the workers, and the times that fit in Slurm's KillWait. The error is for the user.
// The draft says by itself where nodes meet, or has one node: nothing but the workers is set; and
// MUNGE, where the rendezvous is to be started on one of the nodes.
absl::Status ApplySlurm(const SlurmStep& step, const Host& host, bool insecure, JobDraft* draft);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_STEP_H_
