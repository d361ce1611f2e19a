#include "launcher/config/kubernetes/kubernetes_stanza.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "launcher/config/values.h"
#include "launcher/config/yaml_text.h"

namespace ddprun {
namespace {

constexpr absl::string_view kJobSetVariables = R"Y(- name: JOBSET_NAME
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/jobset-name']"}}
- name: JOBSET_UID
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/jobset-uid']"}}
- name: JOBSET_RESTART_ATTEMPT
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"}}
)Y";

constexpr absl::string_view kJobSetNetwork = R"Y(    spec:                        # of the JobSet
      network: {enableDNSHostnames: true, subdomain: %SERVICE%, publishNotReadyAddresses: true}
)Y";

constexpr absl::string_view kStatefulSetService =
    R"Y(    spec:                        # of the StatefulSet
      serviceName: %SERVICE%   # %NEEDED%
      podManagementPolicy: Parallel   # all pods start at once
)Y";

constexpr absl::string_view kPods = R"Y(    spec:                        # of the pods
%SUBDOMAIN%      containers:
      - env:
        - {name: DDPRUN_NNODES, value: "4"}   # how many pods are one job
        - {name: DDPRUN_RDZV_ENDPOINT, value: "%FIRST%.%SERVICE%:%PORT%"}
        - {name: DDPRUN_TOKEN_FILE, value: /etc/ddprun/secret/token}
%VARIABLES%        volumeMounts:
        - {name: secret, mountPath: /etc/ddprun/secret}
      volumes:
      # 256 is 0400: only the owner may read the token. Unless the container runs as root, the pod
      # also needs `securityContext: {fsGroup: 1000}` (any group) to read it.
      - {name: secret, secret: {secretName: %SET%, defaultMode: 256}}   # kubectl create secret generic %SET% --from-literal=token="$(openssl rand -hex 32)"
)Y";

constexpr absl::string_view kNeeded =
    "a Service with clusterIP: None and publishNotReadyAddresses: true that selects them";

}  // namespace

std::string JobSetVariables() { return std::string(kJobSetVariables); }

std::string KubernetesStanza(const KubernetesPod& pod) {
  const std::string set = pod.set.empty() ? "train" : pod.set;
  const std::string first = pod.first_host.empty() ? set + "-0" : pod.first_host;
  const std::string service = pod.domain.empty() ? set : pod.domain.substr(0, pod.domain.find('.'));
  std::string head;
  std::string subdomain;
  std::string variables;
  switch (pod.kind) {
    case KubernetesPod::Kind::kJob:
      subdomain = "      subdomain: %SERVICE%   # %NEEDED%\n";
      break;
    case KubernetesPod::Kind::kJobSet:
      head = std::string(kJobSetNetwork);
      variables = Indented(kJobSetVariables, 8);
      break;
    case KubernetesPod::Kind::kStatefulSet:
      head = std::string(kStatefulSetService);
      break;
  }
  std::string text = absl::StrCat(
      head, absl::StrReplaceAll(kPods, {{"%SUBDOMAIN%", subdomain}, {"%VARIABLES%", variables}}));
  return absl::StrReplaceAll(text, {{"%SERVICE%", service},
                                    {"%NEEDED%", kNeeded},
                                    {"%FIRST%", first},
                                    {"%SET%", set},
                                    {"%PORT%", absl::StrCat(kDefaultPort)}});
}

}  // namespace ddprun
