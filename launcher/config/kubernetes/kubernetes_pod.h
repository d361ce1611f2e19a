// What Kubernetes tells a pod of an Indexed Job, a JobSet or a StatefulSet about itself, and the
// settings of a job that follow from it: in such a pod `ddprun ./train` needs no flag. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_POD_H_
#define DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_POD_H_

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/config/host.h"
#include "launcher/config/job_draft.h"

namespace ddprun {

// Kubernetes kills what is left of a pod 30 s after its SIGTERM (terminationGracePeriodSeconds)
// unless the manifest says otherwise: a checkpoint and the workers' end have to fit.
inline constexpr std::chrono::milliseconds kPodSaveTimeout = std::chrono::seconds(20);
inline constexpr std::chrono::milliseconds kPodStopGrace = std::chrono::seconds(5);
// Until the pod with the rendezvous is there, or there again: it may have to be scheduled, and its
// image pulled.
inline constexpr std::chrono::milliseconds kPodWait = std::chrono::minutes(10);

struct KubernetesPod {
  std::string name;        // its host name: train-2
  std::string set;         // what its siblings' names begin with: train; "": the name has no index
  std::string first_host;  // the host name of index 0: train-0; "" where `set` is
  // Not asked for as a node rank: ranks follow the host names, which end in it, and whoever asks is
  // refused where its predecessor still holds it, or where other pods (spares, a JobSet's further
  // Jobs) ask for none.
  int index = 0;
  // The names of the headless service's pods end with this: "train.default.svc.cluster.local".
  // "": no service names the pod.
  std::string domain;
  std::string address;       // of this pod; "": kubelet has not written it into /etc/hosts
  std::string jobset_uid;    // another one for each JobSet of the same name; "": not known
  bool is_requeued = false;  // JobSet numbers the lives of this job
};

// The pod that this process is in; nullopt elsewhere, and in a pod without an index. The error
// names the variable that is not what Kubernetes would set.
absl::StatusOr<std::optional<KubernetesPod>> FindKubernetesPod(const Host& host);

// Sets in `draft` what its user has left open: the rendezvous on index 0, its id, this pod's
// address, the workers, and the times that fit in a pod's 30 s between SIGTERM and SIGKILL. The
// error is for the user, with what to add to the manifest. With --standalone, --master-addr and
// --node-rank nothing but the workers is set.
absl::Status ApplyKubernetes(const KubernetesPod& pod, const Host& host, bool insecure,
                             JobDraft* draft);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_POD_H_
