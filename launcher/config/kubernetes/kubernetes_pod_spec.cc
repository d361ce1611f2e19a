#include "launcher/config/kubernetes/kubernetes_pod_spec.h"

#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/config/kubernetes/kubernetes_pod.h"
#include "launcher/config/kubernetes/kubernetes_stanza.h"
#include "launcher/config/save_notice.h"
#include "launcher/config/values.h"
#include "launcher/config/yaml_text.h"

namespace ddprun {
namespace {

constexpr absl::string_view kNvidia = "nvidia.com/";
constexpr absl::string_view kNvidiaGpu = "nvidia.com/gpu";
constexpr int kSecretGroup = 65'532;  // for pods whose user comes from the image
constexpr absl::string_view kJobFolder = "/etc/ddprun/job";
constexpr absl::string_view kSecretFolder = "/etc/ddprun/secret";
constexpr absl::string_view kScratchFolder = "/var/lib/ddprun";

// A secret's file, and the variable that gives ddprun its path.
constexpr struct {
  absl::string_view file;
  absl::string_view variable;
} kSecretFiles[] = {{"token", "DDPRUN_TOKEN_FILE"},
                    {"ca.crt", "DDPRUN_TLS_CA"},
                    {"node.crt", "DDPRUN_TLS_CERT"},
                    {"node.key", "DDPRUN_TLS_KEY"}};

class PodWriter {
 public:
  explicit PodWriter(const KubernetesJob& job)
      : job_(job), config_(job.draft.config), wanted_(config_.kubernetes) {}

  std::string Write() {
    if (Several() && !job_.jobset) Line("subdomain: ", YamlWord(job_.name));
    Line("restartPolicy: Never");
    Line("# From SIGTERM to SIGKILL: time for a checkpoint and for the workers to end.");
    Line("terminationGracePeriodSeconds: ",
         std::chrono::floor<std::chrono::seconds>(wanted_.grace).count());
    Line("enableServiceLinks: false");
    if (wanted_.service_account.empty()) {
      Line("automountServiceAccountToken: false");
    } else {
      Line("serviceAccountName: ", YamlWord(wanted_.service_account));
    }
    if (!wanted_.priority_class.empty()) {
      Line("priorityClassName: ", YamlWord(wanted_.priority_class));
    }
    User();
    if (wanted_.gpus_per_node > 0) {
      Line("tolerations:");
      Toleration(wanted_.gpu_resource);
      // Nodes with MIG instances have the taint of whole GPUs.
      if (IsMigResource(wanted_.gpu_resource)) Toleration(kNvidiaGpu);
    }
    Line("containers:");
    Line("- name: ", kContainer);
    Line("  image: ", YamlWord(wanted_.image));
    Line("  command: [ddprun, -c, ", kJobFolder, "/", kJobFileKey, "]");
    Variables();
    Resources();
    Privileges();
    Mounts();
    Volumes();
    return text_;
  }

 private:
  template <typename... Parts>
  void Line(const Parts&... parts) {
    absl::StrAppend(&text_, parts..., "\n");
  }
  bool Several() const { return config_.nodes.max > 1; }
  bool Given(const char* key) const { return job_.draft.origins.count(key) != 0; }
  bool OwnLogFolder() const { return !Given("log_dir"); }

  void Variable(absl::string_view name, absl::string_view value) {
    Line("  - {name: ", name, ", value: ", YamlWord(value), "}");
  }

  void Toleration(absl::string_view taint) {
    Line("- {key: ", YamlWord(taint), ", operator: Exists, effect: NoSchedule}");
  }

  void User() {
    Line("securityContext:");
    if (wanted_.run_as > 0) {
      Line("  runAsNonRoot: true");
      Line("  runAsUser: ", wanted_.run_as);
      Line("  runAsGroup: ", wanted_.run_as);
      Line("  seccompProfile: {type: RuntimeDefault}");
    }
    Line("  # This group may read the token and write to the volumes.");
    Line("  fsGroup: ", wanted_.run_as > 0 ? wanted_.run_as : kSecretGroup);
    Line("  fsGroupChangePolicy: OnRootMismatch");
  }

  void Variables() {
    Line("  env:");
    Variable("DDPRUN_NNODES", FormatNodes(config_.nodes));
    if (Several() && !Given("rendezvous.endpoint")) {
      const std::string first =
          job_.jobset ? absl::StrCat(job_.name, "-", kReplicatedJob, "-0-0") : job_.name + "-0";
      Variable("DDPRUN_RDZV_ENDPOINT", absl::StrCat(first, ".", job_.name, ":", kDefaultPort));
    }
    // ddprun itself counts NVIDIA's GPUs alone.
    if (wanted_.gpus_per_node > 0 && !Given("nproc_per_node") &&
        !absl::StartsWith(wanted_.gpu_resource, kNvidia)) {
      Variable("DDPRUN_NPROC_PER_NODE", absl::StrCat(wanted_.gpus_per_node));
    }
    Line("  # The pod's grace, less the time that the workers need to end.");
    Variable("DDPRUN_SAVE_TIMEOUT",
             FormatDuration(SaveTimeoutWithin(wanted_.grace, kPodStopGrace, job_.draft)));
    for (const auto& [file, variable] : kSecretFiles) {
      if (job_.secrets.count(std::string(file)) == 0) continue;
      Variable(variable, absl::StrCat(kSecretFolder, "/", file));
    }
    if (OwnLogFolder()) Variable("DDPRUN_LOG_DIR", absl::StrCat(kScratchFolder, "/logs"));
    Line("  - {name: DDPRUN_LOCAL_ADDR, valueFrom: {fieldRef: {fieldPath: status.podIP}}}");
    if (job_.jobset) {
      Line("  # The JobSet, and how often it was restarted.");
      absl::StrAppend(&text_, Indented(JobSetVariables(), 2));
    }
  }

  void Resources() {
    if (wanted_.cpu.empty() && wanted_.memory.empty() && wanted_.gpus_per_node == 0) return;
    Line("  resources:");
    if (!wanted_.cpu.empty() || !wanted_.memory.empty()) {
      Line("    requests:");
      if (!wanted_.cpu.empty()) Line("      cpu: ", YamlWord(wanted_.cpu));
      if (!wanted_.memory.empty()) Line("      memory: ", YamlWord(wanted_.memory));
    }
    if (wanted_.memory.empty() && wanted_.gpus_per_node == 0) return;
    Line("    limits:");
    if (!wanted_.memory.empty()) Line("      memory: ", YamlWord(wanted_.memory));
    if (wanted_.gpus_per_node > 0) {
      Line("      ", YamlWord(wanted_.gpu_resource), ": ", wanted_.gpus_per_node);
    }
  }

  void Privileges() {
    if (wanted_.run_as == 0 && !wanted_.stacks) return;
    Line("  securityContext:");
    if (wanted_.run_as > 0) Line("    allowPrivilegeEscalation: false");
    Line("    capabilities:");
    if (wanted_.run_as > 0) Line("      drop: [ALL]");
    if (wanted_.stacks) Line("      add: [SYS_PTRACE]");
  }

  void Mounts() {
    Line("  volumeMounts:");
    Line("  - {name: job, mountPath: ", kJobFolder, ", readOnly: true}");
    if (!job_.secrets.empty()) {
      Line("  - {name: secret, mountPath: ", kSecretFolder, ", readOnly: true}");
    }
    Line("  - {name: shm, mountPath: /dev/shm}");
    if (OwnLogFolder()) Line("  - {name: scratch, mountPath: ", kScratchFolder, "}");
    if (const std::string path = VolumePath(wanted_, config_); !path.empty()) {
      Line("  - {name: checkpoints, mountPath: ", YamlWord(path), "}");
    }
  }

  void Volumes() {
    Line("volumes:");
    Line("- {name: job, configMap: {name: ", YamlWord(job_.name), "}}");
    if (!job_.secrets.empty()) {
      Line("- {name: secret, secret: {secretName: ", YamlWord(job_.name),
           ", defaultMode: 256}}  # 0400");
    }
    const std::string size =
        wanted_.shm_size.empty() ? "" : absl::StrCat(", sizeLimit: ", YamlWord(wanted_.shm_size));
    Line("- {name: shm, emptyDir: {medium: Memory", size, "}}");
    if (OwnLogFolder()) Line("- {name: scratch, emptyDir: {}}");
    if (!VolumePath(wanted_, config_).empty()) {
      Line("- {name: checkpoints, persistentVolumeClaim: {claimName: ",
           YamlWord(wanted_.volume_claim), "}}");
    }
  }

  const KubernetesJob& job_;
  const JobConfig& config_;
  const KubernetesConfig& wanted_;
  std::string text_;
};

}  // namespace

bool IsMigResource(absl::string_view resource) {
  return absl::StartsWith(resource, absl::StrCat(kNvidia, "mig-"));
}

std::string VolumePath(const KubernetesConfig& wanted, const JobConfig& config) {
  if (wanted.volume_claim.empty()) return "";
  return wanted.volume_path.empty() ? config.checkpoint_dir : wanted.volume_path;
}

std::string KubernetesPodSpec(const KubernetesJob& job) { return PodWriter(job).Write(); }

}  // namespace ddprun
