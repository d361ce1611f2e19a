// The manifest that `ddprun kubernetes` prints: all objects of one job. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_MANIFEST_H_
#define DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_MANIFEST_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "launcher/config/job_draft.h"

namespace ddprun {

struct KubernetesJob {
  JobDraft draft;        // what the job file says
  std::string name;      // of every object: kubernetes.name, else KubernetesName()
  std::string job_file;  // its text
  // What the pods prove who they are with, by the name of the file: token, ca.crt, node.crt,
  // node.key. Empty: the job file names a rendezvous that asks nobody.
  std::map<std::string, std::string> secrets;
  bool jobset = false;  // a JobSet instead of a Job
};

// What a file's name without its extension is as the name of an object: My_job → my-job.
std::string KubernetesName(absl::string_view stem);

// What is wrong with the section `kubernetes` and what goes with it, one line each, with its place;
// `path` is the job file's. The manifest is for a job without any.
std::vector<std::string> KubernetesProblems(const KubernetesJob& job, const std::string& path);
// The same of what is not wrong, and may not be meant.
std::vector<std::string> KubernetesWarnings(const KubernetesJob& job);

std::string KubernetesManifest(const KubernetesJob& job);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_MANIFEST_H_
