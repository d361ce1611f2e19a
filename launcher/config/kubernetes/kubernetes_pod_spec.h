// The pods of a job's manifest. Internal to this folder. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_POD_SPEC_H_
#define DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_POD_SPEC_H_

#include <string>

#include "absl/strings/string_view.h"
#include "launcher/config/kubernetes/kubernetes_manifest.h"

namespace ddprun {

inline constexpr absl::string_view kContainer = "ddprun";
inline constexpr absl::string_view kReplicatedJob = "node";  // of a JobSet; part of its pods' names
inline constexpr absl::string_view kJobFileKey = "job.yaml";  // in the ConfigMap

// "nvidia.com/mig-1g.5gb": instances of divided GPUs.
bool IsMigResource(absl::string_view resource);

// Mount point of the checkpoints' volume; "": no volume.
std::string VolumePath(const KubernetesConfig& wanted, const JobConfig& config);

// The `spec` of a pod template, not indented.
std::string KubernetesPodSpec(const KubernetesJob& job);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_POD_SPEC_H_
