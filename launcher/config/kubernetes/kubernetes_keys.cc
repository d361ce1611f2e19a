#include "launcher/config/kubernetes/kubernetes_keys.h"

#include "rendezvous/core/limits.h"

namespace ddprun {
namespace {

constexpr std::int64_t kLongestGrace = kMaxTimeout.count();
constexpr int kMostFailures = 1'000;
constexpr int kHighestUser = 65'535;

constexpr JobKey kKubernetesKeys[] = {
    {"kubernetes", "name", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.name; },
     "Name of the Job or JobSet, and of the objects that belong to it: at most 40 lower-case "
     "letters, digits and dashes. Empty: the name of the file without .yaml."},
    {"kubernetes", "namespace", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.name_space; },
     "The namespace. Empty: kubectl's namespace."},
    {"kubernetes", "image", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.image; },
     "The image of the pods. It must contain the program, and ddprun in its PATH."},
    {"kubernetes", "cpu", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.cpu; },
     "CPUs that each pod requests, as Kubernetes writes them: 8, or 500m. Empty: no request."},
    {"kubernetes", "memory", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.memory; },
     "Memory of each pod, such as 64Gi: both request and limit. Empty: no request and no limit."},
    {"kubernetes", "gpus_per_node", KeyType::kInteger, 0, kMaxWorkersPerNode,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.gpus_per_node; },
     "GPUs of each pod. 0: no GPU is requested."},
    {"kubernetes", "gpu_resource", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.gpu_resource; },
     "What the cluster calls a GPU: nvidia.com/gpu, amd.com/gpu, nvidia.com/mig-1g.10gb."},
    {"kubernetes", "shm_size", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.shm_size; },
     "Size of /dev/shm, such as 16Gi; it counts as memory of the pod. Empty: as much as the pod's "
     "memory, or half of the node's."},
    {"kubernetes", "volume_claim", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.volume_claim; },
     "The PersistentVolumeClaim for checkpoints, which all pods mount (ReadWriteMany)."},
    {"kubernetes", "volume_path", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.volume_path; },
     "Absolute path at which the volume of volume_claim is mounted. Empty: checkpoint_dir."},
    {"kubernetes", "service_account", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.service_account; },
     "The pods' service account. Empty: the default one, without a token in the pods."},
    {"kubernetes", "priority_class", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.priority_class; },
     "The pods' priority class. Empty: the cluster's default."},
    {"kubernetes", "queue", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.queue; },
     "The queue of Kueue that admits the job. Empty: it starts at once."},
    {"kubernetes", "run_as", KeyType::kInteger, 0, kHighestUser,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.run_as; },
     "User and group of the pods, without any privilege. 0: the image's user."},
    {"kubernetes", "grace", KeyType::kDuration, 1'000, kLongestGrace,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.grace; },
     "How long an evicted pod has to make a checkpoint and to end."},
    {"kubernetes", "pod_failures", KeyType::kInteger, 0, kMostFailures,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.pod_failures; },
     "How many pods may be killed or lose the rendezvous before the job fails. Evicted pods do not "
     "count. If it is not set, the limit is 6 times the maximum number of nodes."},
    {"kubernetes", "requeues", KeyType::kInteger, 0, kMostFailures,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.requeues; },
     "With --jobset: how often JobSet starts all pods again after pod_failures is used up."},
    {"kubernetes", "stacks", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.kubernetes.stacks; },
     "Give the pods the capability SYS_PTRACE, which `ddprun stacks` needs on some nodes."},
};

}  // namespace

absl::Span<const JobKey> KubernetesKeys() { return kKubernetesKeys; }

}  // namespace ddprun
