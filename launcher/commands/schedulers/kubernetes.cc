#include <sys/random.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/schedulers/job_file_check.h"
#include "launcher/config/kubernetes/kubernetes_manifest.h"
#include "launcher/config/yaml_config.h"

namespace ddprun {
namespace {

constexpr std::size_t kNewTokenBytes = 32;

int FailWith(int exit_code, absl::string_view what) {
  std::fprintf(stderr, "%s\n", std::string(what).c_str());
  return exit_code;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.is_open() && !file.bad()) return text;
  return absl::UnavailableError(absl::StrCat("cannot read ", path));
}

absl::StatusOr<std::string> NewToken() {
  std::string bytes(kNewTokenBytes, '\0');
  if (getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size())) {
    return absl::BytesToHexString(bytes) + "\n";
  }
  return absl::UnavailableError("the kernel gives no random numbers for a token");
}

// Reads the secrets that the job file names. If it names none and the pods run their own
// rendezvous, makes a new token.
absl::Status FindSecrets(KubernetesJob* job) {
  const CredentialsConfig& credentials = job->draft.config.rendezvous.credentials;
  const std::pair<const char*, const std::string*> files[] = {{"token", &credentials.token_file},
                                                              {"ca.crt", &credentials.tls_ca},
                                                              {"node.crt", &credentials.tls_cert},
                                                              {"node.key", &credentials.tls_key}};
  for (const auto& [name, path] : files) {
    if (path->empty()) continue;
    auto text = ReadText(*path);
    if (!text.ok()) return text.status();
    job->secrets.emplace(name, *std::move(text));
  }
  const bool own_rendezvous =
      job->draft.config.nodes.max > 1 && job->draft.origins.count("rendezvous.endpoint") == 0;
  if (!job->secrets.empty() || !own_rendezvous) return absl::OkStatus();
  auto token = NewToken();
  if (!token.ok()) return token.status();
  job->secrets.emplace("token", *std::move(token));
  return absl::OkStatus();
}

}  // namespace

int PrintManifest(const KubernetesCommand& command, const Host& host) {
  KubernetesJob job;
  job.jobset = command.jobset;
  if (const absl::Status status = LoadJobFileInto(command.path, &job.draft); !status.ok()) {
    return FailWith(kExitBadConfig, status.message());
  }
  job.name = job.draft.config.kubernetes.name;
  if (job.name.empty()) {
    job.name = KubernetesName(std::filesystem::path(command.path).stem().string());
  }
  std::vector<std::string> problems = KubernetesProblems(job, command.path);
  if (std::string text = WhatNodesWouldSay(job.draft, command.path, host); !text.empty()) {
    problems.insert(problems.begin(), std::move(text));
  }
  if (!problems.empty()) return FailWith(kExitBadConfig, absl::StrJoin(problems, "\n"));
  auto text = ReadText(command.path);
  if (!text.ok()) return FailWith(kExitUnavailable, text.status().message());
  job.job_file = *std::move(text);
  if (const absl::Status status = FindSecrets(&job); !status.ok()) {
    return FailWith(kExitUnavailable, status.message());
  }
  for (const std::string& warning : KubernetesWarnings(job)) {
    std::fprintf(stderr, "%s\n", warning.c_str());
  }
  std::fputs(KubernetesManifest(job).c_str(), stdout);
  return 0;
}

}  // namespace ddprun
