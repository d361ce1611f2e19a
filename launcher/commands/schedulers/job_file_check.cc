#include "launcher/commands/schedulers/job_file_check.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/config/values.h"

namespace ddprun {

std::string WhatNodesWouldSay(JobDraft draft, const std::string& path, const Host& host) {
  if (!ParseWholeNumber(draft.nproc_per_node)) draft.nproc_per_node = "1";
  draft.config.program.virtual_local_rank = false;
  draft.config.rendezvous.endpoint = "of-the-step:1";
  const auto result =
      FinishJob(draft, Origin{Source::kFile, absl::StrCat(path, ":1:1: command")}, host);
  std::string text;
  if (const auto* problems = std::get_if<std::vector<JobProblem>>(&result)) {
    for (const JobProblem& problem : *problems) {
      absl::StrAppend(&text, text.empty() ? "" : "\n", problem.message);
    }
  }
  const CredentialsConfig& credentials = draft.config.rendezvous.credentials;
  for (const std::string& file :
       {credentials.token_file, credentials.tls_ca, credentials.tls_cert, credentials.tls_key}) {
    if (file.empty() || access(file.c_str(), R_OK) == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : "\n", path, ": cannot read ", file, ": ",
                    std::strerror(errno));
  }
  return text;
}

}  // namespace ddprun
