// The rows of the section `kubernetes` in the table of job keys (launcher/config/job_keys.h). Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_KEYS_H_
#define DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_KEYS_H_

#include "absl/types/span.h"
#include "launcher/config/job_keys.h"

namespace ddprun {

absl::Span<const JobKey> KubernetesKeys();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_KEYS_H_
