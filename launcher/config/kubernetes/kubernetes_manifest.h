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
  JobDraft draft;        // settings of the job file
  std::string name;      // of every object: kubernetes.name, else KubernetesName()
  std::string job_file;  // text of the job file
  // The pods' credentials, by file name: token, ca.crt, node.crt, node.key. Empty: the job
  // file names none, and the job has one pod, or the job file sets rendezvous.endpoint.
  std::map<std::string, std::string> secrets;
  bool jobset = false;  // a JobSet instead of a Job
};

// Makes an object's name from a file's name without its extension: My_job → my-job.
std::string KubernetesName(absl::string_view stem);

// Errors of the section `kubernetes` and of related keys, one line each, with their places. `path`:
// of the job file. KubernetesManifest() requires a job without errors.
std::vector<std::string> KubernetesProblems(const KubernetesJob& job, const std::string& path);
// Warnings, in the same form.
std::vector<std::string> KubernetesWarnings(const KubernetesJob& job);

std::string KubernetesManifest(const KubernetesJob& job);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_KUBERNETES_KUBERNETES_MANIFEST_H_
