// Facts about the pod of an Indexed Job, a JobSet or a StatefulSet, and the job settings that
// follow from them. If the manifest sets DDPRUN_NNODES, `ddprun ./train` needs no flag there. Pure.
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

// Kubernetes kills a pod 30 s after SIGTERM unless the manifest sets another
// terminationGracePeriodSeconds. The checkpoint and the workers' end have to fit into that time.
inline constexpr std::chrono::milliseconds kPodSaveTimeout = std::chrono::seconds(20);
inline constexpr std::chrono::milliseconds kPodStopGrace = std::chrono::seconds(5);
// Time limit for the pod with the rendezvous to start, or to start again. Kubernetes may have to
// schedule the pod and pull its image.
inline constexpr std::chrono::milliseconds kPodWait = std::chrono::minutes(10);

struct KubernetesPod {
  enum class Kind { kJob, kJobSet, kStatefulSet };

  Kind kind = Kind::kJob;  // kJobSet may be a guess; used only for the text of an error
  std::string name;        // its host name: train-2
  std::string set;         // common prefix of the pods' names: train; "": the name has no index
  std::string first_host;  // host name of index 0: train-0; "" if `set` is ""
  // Not used as a requested node rank, because ranks follow the host names, which end in the index.
  // A requested rank would be refused while the pod's predecessor holds it, or if other pods
  // (spares, further Jobs of a JobSet) request no rank.
  int index = 0;
  // The end of the pods' names in the headless service: "train.default.svc.cluster.local". "": no
  // service names the pod.
  std::string domain;
  std::string address;       // of this pod; "": kubelet has not written it into /etc/hosts
  std::string jobset_uid;    // unique among JobSets of the same name; "": not known
  bool is_requeued = false;  // JobSet restarts this job and numbers the attempts
};

// The pod of this process; nullopt: not in a pod, or in a pod without an index. The error names a
// variable with an unexpected value.
absl::StatusOr<std::optional<KubernetesPod>> FindKubernetesPod(const Host& host);

// In any pod of Kubernetes, with or without an index: sets the time limits that the user left open.
// They fit into the 30 s between SIGTERM and SIGKILL of a pod.
void FitIntoPodsGrace(const Host& host, JobDraft* draft);

// Sets in `draft` the settings that the user left open: the rendezvous on index 0, its id, the time
// limits for reaching it (kPodWait), this pod's address, and the workers. With --standalone,
// --master-addr or --node-rank it sets only the workers. The error is for the user, with the lines
// to add to the manifest.
absl::Status ApplyKubernetes(const KubernetesPod& pod, const Host& host, bool insecure,
                             JobDraft* draft);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_POD_H_
