#include "launcher/config/kubernetes/kubernetes_pod.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "launcher/config/kubernetes/kubernetes_stanza.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

constexpr std::size_t kUidLetters = 8;

std::string PodVariable(const Host& host, const char* name) {
  return host.Environment(name).value_or("");
}

std::optional<int> ParseIndex(absl::string_view text) {
  const auto number = ParseWholeNumber(text);
  if (!number || *number > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*number);
}

// "train-2" → "train", 2.
std::optional<std::pair<std::string, int>> SplitIndex(absl::string_view name) {
  const std::size_t dash = name.rfind('-');
  if (dash == absl::string_view::npos || dash == 0) return std::nullopt;
  const auto index = ParseIndex(name.substr(dash + 1));
  if (!index) return std::nullopt;
  return std::pair(std::string(name.substr(0, dash)), *index);
}

// Kubelet writes into a pod's /etc/hosts "10.1.0.7 train-2.train.default.svc.cluster.local
// train-2", without the long name if no headless service has the pod.
void ReadHostsFile(absl::string_view text, KubernetesPod* pod) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (fields.size() < 2 || absl::StartsWith(fields[0], "127.") || fields[0] == "::1") continue;
    if (std::find(fields.begin() + 1, fields.end(), pod->name) == fields.end()) continue;
    pod->address = std::string(fields[0]);
    for (absl::string_view name : fields) {
      if (absl::ConsumePrefix(&name, absl::StrCat(pod->name, "."))) pod->domain = std::string(name);
    }
    return;
  }
}

// The host names of a JobSet's pods are JOBSET-GROUP-JOB-INDEX; all Jobs of a group are one job. If
// the manifest does not give the JobSet's name (`jobset` is ""), the name may still be the
// service's, as is JobSet's default. Then only the pod's kind is set, for the text of errors.
void ReadJobSet(const std::string& jobset, KubernetesPod* pod) {
  const auto group = SplitIndex(pod->set);
  if (!group) return;
  const auto begins_with = [pod](absl::string_view name) {
    return !name.empty() && absl::StartsWith(pod->set, absl::StrCat(name, "-"));
  };
  if (jobset.empty()) {
    const std::string service = pod->domain.substr(0, pod->domain.find('.'));
    if (begins_with(service)) pod->kind = KubernetesPod::Kind::kJobSet;
    return;
  }
  pod->kind = KubernetesPod::Kind::kJobSet;
  if (!begins_with(jobset)) return;
  pod->set = group->first;
  pod->first_host = absl::StrCat(group->first, "-0-0");
}

absl::Status Lacking(const KubernetesPod& pod, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ". Add to the manifest:\n", KubernetesStanza(pod),
                   "`ddprun kubernetes job.yaml` prints a whole manifest; docs/kubernetes.md"));
}

bool IsPod(const Host& host) {
  return !PodVariable(host, "JOB_COMPLETION_INDEX").empty() ||
         !PodVariable(host, "KUBERNETES_SERVICE_HOST").empty();
}

class PodDefaults {
 public:
  PodDefaults(const KubernetesPod& pod, bool insecure, JobDraft* draft)
      : pod_(pod), insecure_(insecure), draft_(draft), config_(draft->config) {}

  absl::Status Apply() {
    if (!Given("nodes")) {
      return Lacking(pod_, absl::StrCat("--nnodes: expected the number of pods that are one job: ",
                                        "this is pod ", pod_.name, " with index ", pod_.index,
                                        ", and Kubernetes does not say how many there are ",
                                        "(1: each pod trains on its own)"));
    }
    Name();
    Wait();
    config_.place.ends_with_process = true;
    config_.place.has_later_lives = pod_.is_requeued;
    if (config_.nodes.max == 1 && !Given("rendezvous.endpoint")) return absl::OkStatus();
    if (const absl::Status status = Meet(); !status.ok()) return status;
    if (config_.local_addr.empty()) config_.local_addr = pod_.address;
    return absl::OkStatus();
  }

 private:
  bool Given(const char* key) const { return draft_->origins.count(key) != 0; }

  // The uid is added because another JobSet of the same name counts its attempts from 0 again.
  void Name() {
    std::string& id = config_.rendezvous.id;
    if (!Given("rendezvous.id") && !pod_.set.empty()) id = pod_.set;
    if (!pod_.jobset_uid.empty()) {
      absl::StrAppend(&id, ".", pod_.jobset_uid.substr(0, kUidLetters));
    }
  }

  void Wait() {
    RendezvousConfig& rendezvous = config_.rendezvous;
    if (!Given("rendezvous.connect_timeout")) rendezvous.connect_timeout = kPodWait;
    if (!Given("rendezvous.daemon_grace")) rendezvous.daemon_grace = kPodWait;
  }

  // The rendezvous runs at index 0; that pod's agent starts it.
  absl::Status Meet() {
    RendezvousConfig& rendezvous = config_.rendezvous;
    const std::string whole = absl::StrCat(pod_.first_host, ".", pod_.domain);
    if (!Given("rendezvous.endpoint")) {
      if (pod_.first_host.empty() || pod_.domain.empty()) {
        return Lacking(pod_,
                       absl::StrCat("--rdzv-endpoint: no headless Service gives pod ", pod_.name,
                                    " a name by which the other pods find index ", "0"));
      }
      rendezvous.endpoint = FormatEndpoint({whole, kDefaultPort});
    } else if (rendezvous.several()) {
      return absl::OkStatus();  // several rendezvous run elsewhere
    } else {
      const Endpoint given = *ParseEndpoint(rendezvous.endpoint, 1, kDefaultPort);
      const absl::string_view first = absl::string_view(given.host).substr(0, given.host.find('.'));
      if (pod_.first_host.empty() || first != pod_.first_host) return absl::OkStatus();
      // Index 0's own /etc/hosts has the full name before any name server does.
      if (!pod_.domain.empty() && absl::StartsWith(whole, absl::StrCat(given.host, "."))) {
        rendezvous.endpoint = FormatEndpoint({whole, given.port});
      }
    }
    // The other pods wait for index 0, even while its name is unknown.
    if (rendezvous.autostart != "false") {
      rendezvous.autostart = pod_.name == pod_.first_host ? "true" : "false";
    }
    return CheckCredentials();
  }

  // Without this check, index 0 would refuse to start the rendezvous, and the others would wait for
  // it.
  absl::Status CheckCredentials() const {
    const CredentialsConfig& credentials = config_.rendezvous.credentials;
    const bool shown = !credentials.token_file.empty() || !credentials.tls_ca.empty() ||
                       !credentials.tls_cert.empty() || credentials.munge;
    if (shown || insecure_) return absl::OkStatus();
    return Lacking(pod_,
                   "--token-file: expected a token, the same for all pods of the job, or "
                   "certificates (--tls-ca, --tls-cert, --tls-key), or --insecure where every pod "
                   "of the cluster may join and end this job (found none)");
  }

  const KubernetesPod& pod_;
  const bool insecure_;
  JobDraft* const draft_;
  JobConfig& config_;
};

}  // namespace

absl::StatusOr<std::optional<KubernetesPod>> FindKubernetesPod(const Host& host) {
  if (!IsPod(host)) return std::nullopt;
  const std::string completion_index = PodVariable(host, "JOB_COMPLETION_INDEX");
  KubernetesPod pod;
  pod.name = host.Name();
  ReadHostsFile(host.HostsFile(), &pod);
  const auto named = SplitIndex(pod.name);
  if (completion_index.empty()) {
    // Pods of a StatefulSet have the index only in their names, and have a service.
    if (!named || pod.domain.empty()) return std::nullopt;
    pod.kind = KubernetesPod::Kind::kStatefulSet;
    pod.index = named->second;
  } else {
    const auto index = ParseIndex(completion_index);
    if (!index) {
      return absl::InvalidArgumentError(
          absl::StrCat("JOB_COMPLETION_INDEX: expected a whole number, as Kubernetes sets it for "
                       "each pod of an Indexed Job (found ",
                       Quoted(completion_index), ")"));
    }
    pod.index = *index;
  }
  if (named && named->second == pod.index) {
    pod.set = named->first;
    pod.first_host = absl::StrCat(named->first, "-0");
  }
  if (!completion_index.empty()) ReadJobSet(PodVariable(host, "JOBSET_NAME"), &pod);
  pod.jobset_uid = PodVariable(host, "JOBSET_UID");
  pod.is_requeued = !PodVariable(host, "JOBSET_RESTART_ATTEMPT").empty();
  return pod;
}

void FitIntoPodsGrace(const Host& host, JobDraft* draft) {
  if (!IsPod(host)) return;
  const auto given = [&](const char* key) { return draft->origins.count(key) != 0; };
  if (!given("save_timeout")) draft->config.spec.save_timeout = kPodSaveTimeout;
  if (!given("stop_grace")) draft->config.stop_grace = kPodStopGrace;
}

absl::Status ApplyKubernetes(const KubernetesPod& pod, const Host& host, bool insecure,
                             JobDraft* draft) {
  const auto given = [&](const char* key) { return draft->origins.count(key) != 0; };
  if (!given("nproc_per_node")) {
    // "gpu" is refused for several MIG instances: CUDA would show each worker the same one.
    draft->nproc_per_node = GpusOfWorkers(draft->config.env, host).count > 0 ? "gpu" : "1";
  }
  const RendezvousConfig& rendezvous = draft->config.rendezvous;
  const bool standalone = given("rendezvous.endpoint") && rendezvous.endpoint.empty();
  if (standalone || !draft->config.spec.master_addr.empty() || rendezvous.node_rank >= 0) {
    return absl::OkStatus();
  }
  return PodDefaults(pod, insecure, draft).Apply();
}

}  // namespace ddprun
