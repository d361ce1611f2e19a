#include "launcher/config/kubernetes/kubernetes_manifest.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "launcher/config/kubernetes/kubernetes_pod_spec.h"
#include "launcher/config/yaml_text.h"

namespace ddprun {
namespace {

constexpr absl::string_view kService = R"Y(apiVersion: v1
kind: Service
metadata:
%META%spec:
  # Gives each pod a name, even before it is ready: pods look up index 0 when they start.
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
%LABELS%  ports:
  - {name: rendezvous, port: %PORT%}
)Y";

constexpr absl::string_view kBudget = R"Y(apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
%META%spec:
  # %WHY%
  minAvailable: %LEAST%
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
%LABELS%)Y";

constexpr absl::string_view kJobRules = R"Y(backoffLimit: %FAILURES%
podFailurePolicy:
  rules:
  # Wrong flags (64), job file (65), state (66) or credentials (77): a new pod would fail too.
  - action: FailJob
    onExitCodes: {containerName: ddprun, operator: In, values: [64, 65, 66, 77]}
  # The pod was evicted or preempted, or its node is gone.
  - action: Ignore
    onPodConditions:
    - {type: DisruptionTarget, status: "True"}
  # The pod ended on purpose, after a checkpoint from which the job continues.
  - action: Ignore
    onExitCodes: {containerName: ddprun, operator: In, values: [75]}
  # Any other code is the workers' own, and no restart is left. Pods with these codes count for
  # backoffLimit and are replaced: rendezvous lost (69), ddprun failed (70), container not started
  # (128), killed (137), ended without a checkpoint (143), end unknown to the container runtime
  # (255).
  - action: FailJob
    onExitCodes: {containerName: ddprun, operator: NotIn, values: [69, 70, 128, 137, 143, 255]}
)Y";

constexpr absl::string_view kJobSetHead = R"Y(apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
%META%spec:
  # JobSet makes the headless Service itself.
  network:
    enableDNSHostnames: true
    subdomain: %NAME%
    publishNotReadyAddresses: true
  failurePolicy:
    maxRestarts: %REQUEUES%
    rules:
    # Start all pods again if backoffLimit is used up, but not if podFailurePolicy fails the Job.
    - name: verdict
      action: FailJobSet
      onJobFailureReasons: [PodFailurePolicy]
  replicatedJobs:
  - name: %GROUP%
    replicas: 1
    template:
      spec:
)Y";

class ManifestWriter {
 public:
  explicit ManifestWriter(const KubernetesJob& job)
      : job_(job), config_(job.draft.config), wanted_(config_.kubernetes) {}

  std::string Write() {
    const std::string meta = Meta();
    std::string text = "# Written by `ddprun kubernetes`. To start it: kubectl apply -f FILE\n";
    const auto add = [&](const std::string& object) { absl::StrAppend(&text, "---\n", object); };
    if (Several() && !job_.jobset) {
      add(absl::StrReplaceAll(
          kService,
          {{"%META%", meta}, {"%LABELS%", Labels(4)}, {"%PORT%", absl::StrCat(kDefaultPort)}}));
    }
    add(absl::StrCat("apiVersion: v1\nkind: ConfigMap\nmetadata:\n", meta, "data:\n  ", kJobFileKey,
                     ": ", YamlBlock(job_.job_file, 2)));
    if (!job_.secrets.empty()) add(Secret());
    if (Several()) add(Budget());
    add(job_.jobset ? JobSet() : Job());
    return text;
  }

 private:
  bool Several() const { return config_.nodes.max > 1; }
  bool Elastic() const { return config_.nodes.min < config_.nodes.max; }

  std::string Labels(int indent) const {
    return Indented(absl::StrCat("app.kubernetes.io/name: ddprun\napp.kubernetes.io/instance: ",
                                 YamlWord(job_.name)),
                    indent);
  }

  std::string Meta() const {
    std::string meta = absl::StrCat("  name: ", YamlWord(job_.name), "\n");
    if (!wanted_.name_space.empty()) {
      absl::StrAppend(&meta, "  namespace: ", YamlWord(wanted_.name_space), "\n");
    }
    return absl::StrCat(meta, "  labels:\n", Labels(4));
  }

  // Metadata of the Job or JobSet: Kueue's webhook reads the queue's label there.
  std::string MetaWithQueue() const {
    if (wanted_.queue.empty()) return Meta();
    return absl::StrCat(Meta(), "    kueue.x-k8s.io/queue-name: ", YamlWord(wanted_.queue), "\n");
  }

  std::string Secret() const {
    std::string text =
        absl::StrCat("apiVersion: v1\nkind: Secret\nmetadata:\n", Meta(), "type: Opaque\n",
                     "# Pods with another token are refused: keep this file, and do not print ",
                     "a new one while the job runs.\nstringData:\n");
    for (const auto& [name, value] : job_.secrets) {
      absl::StrAppend(&text, "  ", name, ": ", YamlBlock(value, 2));
    }
    return text;
  }

  // For a Job, which has no scale, Kubernetes accepts only minAvailable.
  std::string Budget() const {
    const int least = Elastic() ? config_.nodes.min : config_.nodes.max - 1;
    return absl::StrReplaceAll(
        kBudget,
        {{"%META%", Meta()},
         {"%WHY%", Elastic()
                       ? "The job continues with at least this many pods."
                       : "Only one pod is evicted at a time, and the whole job saves before that."},
         {"%LEAST%", absl::StrCat(least)},
         {"%LABELS%", Labels(6)}});
  }

  std::string Job() const {
    return absl::StrCat("apiVersion: batch/v1\nkind: Job\nmetadata:\n", MetaWithQueue(), "spec:\n",
                        Indented(JobSpec(), 2));
  }

  std::string JobSet() const {
    return absl::StrCat(
        absl::StrReplaceAll(kJobSetHead, {{"%META%", MetaWithQueue()},
                                          {"%NAME%", YamlWord(job_.name)},
                                          {"%GROUP%", kReplicatedJob},
                                          {"%REQUEUES%", absl::StrCat(wanted_.requeues)}}),
        Indented(JobSpec(), 8));
  }

  // If the rendezvous is away for too long, every pod fails once.
  int Failures() const {
    const bool given = job_.draft.origins.count("kubernetes.pod_failures") != 0;
    return given ? wanted_.pod_failures : wanted_.pod_failures * config_.nodes.max;
  }

  std::string JobSpec() const {
    std::string text = absl::StrCat("completionMode: Indexed\ncompletions: ", config_.nodes.max,
                                    "\nparallelism: ", config_.nodes.max, "\n");
    if (Elastic()) {
      absl::StrAppend(&text, "# Pods that were not scheduled do not keep the job from ending.\n",
                      "successPolicy:\n  rules:\n  - {succeededCount: ", config_.nodes.min, "}\n");
    }
    absl::StrAppend(&text,
                    absl::StrReplaceAll(kJobRules, {{"%FAILURES%", absl::StrCat(Failures())}}),
                    "template:\n  metadata:\n    labels:\n", Labels(6), "  spec:\n",
                    Indented(KubernetesPodSpec(job_), 4));
    return text;
  }

  const KubernetesJob& job_;
  const JobConfig& config_;
  const KubernetesConfig& wanted_;
};

}  // namespace

std::string KubernetesManifest(const KubernetesJob& job) { return ManifestWriter(job).Write(); }

}  // namespace ddprun
