#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/schedulers/job_file_check.h"
#include "launcher/config/first_steps/guide.h"
#include "launcher/config/yaml_config.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostFiles = 200;  // files examined

// Names of the YAML files here, sorted.
std::vector<std::string> YamlFiles() {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(".", error), end; !error && at != end;
       at.increment(error)) {
    const std::filesystem::path& path = at->path();
    if (path.extension() != ".yaml" && path.extension() != ".yml") continue;
    if (std::error_code of_file; !at->is_regular_file(of_file)) continue;
    names.push_back(path.filename().string());
    if (names.size() == kMostFiles) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Files with a key `command` at the top level, and a job.yaml that cannot be read, because `ddprun
// init` writes this name. Other YAML files are no job files.
std::vector<FoundJob> JobFiles(const Host& host) {
  std::vector<FoundJob> found;
  for (const std::string& name : YamlFiles()) {
    FoundJob job{name};
    const absl::Status status = LoadJobFileInto(name, &job.draft);
    const bool broken = !status.ok() && name == "job.yaml";
    if (job.draft.origins.count("command") == 0 && !broken) continue;
    job.errors =
        status.ok() ? WhatNodesWouldSay(job.draft, name, host) : std::string(status.message());
    found.push_back(std::move(job));
  }
  return found;
}

}  // namespace

int ShowGuide(const Host& host) {
  std::fputs(Guide(JobFiles(host)).c_str(), stderr);
  return kExitUsage;
}

}  // namespace ddprun
