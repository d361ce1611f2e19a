// Checks the section `kubernetes` of a job file and related keys.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/config/kubernetes/kubernetes_manifest.h"
#include "launcher/config/kubernetes/kubernetes_pod_spec.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

// A pod's host name has at most 63 characters, and in a JobSet it ends with "-node-0-4095".
constexpr std::size_t kLongestObjectName = 40;

bool IsLabel(absl::string_view text, std::size_t longest) {
  return !text.empty() && text.size() <= longest && absl::ascii_islower(text.front()) &&
         text.back() != '-' && absl::c_all_of(text, [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
         });
}

// 8, 1.5, 500m, 64Gi.
bool IsQuantity(absl::string_view text) {
  static constexpr absl::string_view kUnits[] = {"",  "m",  "k",  "M",  "G",  "T",  "P",
                                                 "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  const auto digits = [&text] {
    const auto end = std::find_if_not(text.begin(), text.end(), absl::ascii_isdigit);
    const auto count = static_cast<std::size_t>(end - text.begin());
    text.remove_prefix(count);
    return count > 0;
  };
  if (!digits()) return false;
  if (absl::StartsWith(text, ".")) {
    text.remove_prefix(1);
    if (!digits()) return false;
  }
  return absl::c_linear_search(kUnits, text);
}

// nvidia.com/gpu: a domain and a name.
bool IsResource(absl::string_view text) {
  const auto is_part = [](absl::string_view part) {
    return !part.empty() && absl::ascii_isalnum(part.front()) && absl::ascii_isalnum(part.back()) &&
           absl::c_all_of(part, [](char c) {
             return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
           });
  };
  const std::size_t slash = text.find('/');
  return slash != absl::string_view::npos && is_part(text.substr(0, slash)) &&
         is_part(text.substr(slash + 1));
}

class Checker {
 public:
  Checker(const KubernetesJob& job, const std::string& path)
      : job_(job), config_(job.draft.config), wanted_(config_.kubernetes), path_(path) {}

  std::vector<std::string> Check() {
    if (wanted_.image.empty()) {
      Add("kubernetes.image", "expected the image of the pods, with ddprun and the program", "");
    }
    if (!IsLabel(job_.name, kLongestObjectName)) {
      Add("kubernetes.name",
          "expected at most 40 lower-case letters, digits and dashes, a letter first", job_.name);
    }
    if (!wanted_.name_space.empty() && !IsLabel(wanted_.name_space, 63)) {
      Add("kubernetes.namespace", "expected lower-case letters, digits and dashes",
          wanted_.name_space);
    }
    CheckQuantity("kubernetes.cpu", wanted_.cpu);
    CheckQuantity("kubernetes.memory", wanted_.memory);
    CheckQuantity("kubernetes.shm_size", wanted_.shm_size);
    if (!IsResource(wanted_.gpu_resource)) {
      Add("kubernetes.gpu_resource",
          "expected a domain and a name, such as nvidia.com/gpu or nvidia.com/mig-1g.10gb",
          wanted_.gpu_resource);
    }
    CheckVolume();
    if (config_.rendezvous.credentials.munge) {
      Add("rendezvous.munge",
          "expected no MUNGE: munged does not run in a pod, and the manifest has a token", "true");
    }
    return std::move(problems_);
  }

 private:
  void Add(const char* key, absl::string_view expected, absl::string_view found) {
    const auto origin = job_.draft.origins.find(key);
    const std::string place = origin == job_.draft.origins.end()
                                  ? absl::StrCat(path_, ":1:1: ", key)
                                  : origin->second.place;
    problems_.push_back(absl::StrCat(place, ": ", expected, " (found ",
                                     found.empty() ? "none" : Quoted(found), ")"));
  }

  void CheckQuantity(const char* key, const std::string& text) {
    if (text.empty() || IsQuantity(text)) return;
    Add(key, "expected a number and Kubernetes' unit, such as 8, 500m or 64Gi", text);
  }

  void CheckVolume() {
    if (wanted_.volume_claim.empty()) {
      if (wanted_.volume_path.empty()) return;
      Add("kubernetes.volume_path", "expected together with kubernetes.volume_claim",
          wanted_.volume_path);
      return;
    }
    const std::string path = VolumePath(wanted_, config_);
    if (absl::StartsWith(path, "/")) return;
    Add(wanted_.volume_path.empty() ? "checkpoint_dir" : "kubernetes.volume_path",
        "expected an absolute path, where the volume of kubernetes.volume_claim is mounted", path);
  }

  const KubernetesJob& job_;
  const JobConfig& config_;
  const KubernetesConfig& wanted_;
  const std::string& path_;
  std::vector<std::string> problems_;
};

}  // namespace

std::string KubernetesName(absl::string_view stem) {
  std::string name = absl::AsciiStrToLower(stem);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '_' || c == '.'; }, '-');
  return name;
}

std::vector<std::string> KubernetesProblems(const KubernetesJob& job, const std::string& path) {
  return Checker(job, path).Check();
}

std::vector<std::string> KubernetesWarnings(const KubernetesJob& job) {
  const KubernetesConfig& wanted = job.draft.config.kubernetes;
  std::vector<std::string> warnings;
  const auto folder = job.draft.origins.find("checkpoint_dir");
  if (folder != job.draft.origins.end() && wanted.volume_claim.empty()) {
    warnings.push_back(
        absl::StrCat(folder->second.place,
                     ": no volume of the manifest contains this folder, so it is lost with its "
                     "pod: give kubernetes.volume_claim, or add a volume"));
  }
  const auto gpus = job.draft.origins.find("kubernetes.gpus_per_node");
  if (gpus != job.draft.origins.end() && wanted.gpus_per_node > 1 &&
      IsMigResource(wanted.gpu_resource) && job.draft.origins.count("nproc_per_node") == 0) {
    warnings.push_back(absl::StrCat(gpus->second.place,
                                    ": CUDA shows a process one MIG instance alone, and ddprun "
                                    "will refuse to start: give 1, and more nodes"));
  }
  return warnings;
}

}  // namespace ddprun
