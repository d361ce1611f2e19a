// The lines that a manifest written without ddprun lacks, for errors. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_STANZA_H_
#define DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_STANZA_H_

#include <string>

#include "launcher/config/kubernetes/kubernetes_pod.h"

namespace ddprun {

// Variables of a JobSet's container, a list in YAML that is not indented: the name, the uid and
// the restart attempt of the JobSet, by the downward API.
std::string JobSetVariables();

// The stanza for the pod's kind, with the names of this pod's set. Names that the pod does not
// tell are "train".
std::string KubernetesStanza(const KubernetesPod& pod);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_STANZA_H_
