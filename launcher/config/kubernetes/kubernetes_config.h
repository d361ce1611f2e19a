// KubernetesConfig: the section `kubernetes` of a job file, for `ddprun kubernetes`.
#ifndef DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_CONFIG_H_
#define DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_CONFIG_H_

#include <chrono>
#include <string>

namespace ddprun {

// An empty text is not in the manifest, unless its comment says otherwise.
struct KubernetesConfig {
  std::string name{};  // of all objects; empty: the file's name
  std::string name_space{};
  std::string image{};
  std::string cpu{};      // of each pod, in Kubernetes' syntax: 8, 500m
  std::string memory{};   // the same: 64Gi
  int gpus_per_node = 0;  // 0: not in the manifest
  std::string gpu_resource = "nvidia.com/gpu";
  std::string shm_size{};      // of /dev/shm; empty: as much as the pod's memory allows
  std::string volume_claim{};  // a PersistentVolumeClaim for the checkpoints
  std::string volume_path{};   // its mount point; empty: checkpoint_dir
  std::string service_account{};
  std::string priority_class{};
  std::string queue{};                       // of Kueue
  int run_as = 0;                            // user and group; 0: the image's user
  std::chrono::milliseconds grace{120'000};  // from SIGTERM to SIGKILL of a pod
  int pod_failures = 6;                      // how many pods may fail, evictions not counted.
                                             // The default is multiplied by the number of pods
  int requeues = 3;                          // restarts of the whole JobSet when pod_failures is
                                             // used up
  bool stacks = false;                       // the capability SYS_PTRACE
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_CONFIG_H_
