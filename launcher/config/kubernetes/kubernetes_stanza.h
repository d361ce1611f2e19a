// YAML lines of manifests: the variables of a JobSet's container, and the lines that an error
// suggests for a manifest that ddprun did not write. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_STANZA_H_
#define DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_STANZA_H_

#include <string>

#include "launcher/config/kubernetes/kubernetes_pod.h"

namespace ddprun {

// Variables for a JobSet's container, as a YAML list that is not indented. The downward API gives
// them the name, the uid and the restart attempt of the JobSet.
std::string JobSetVariables();

// The stanza for the pod's kind, with the names of this pod's set. A name that is not known is
// "train".
std::string KubernetesStanza(const KubernetesPod& pod);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_STANZA_H_
