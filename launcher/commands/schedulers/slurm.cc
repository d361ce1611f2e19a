#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/schedulers/job_file_check.h"
#include "launcher/config/job_draft.h"
#include "launcher/config/slurm/slurm_script.h"
#include "launcher/config/values.h"
#include "launcher/config/yaml_config.h"
#include "launcher/os/file_util.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

int Fail(int exit_code, absl::string_view what) {
  std::fprintf(stderr, "%s\n", std::string(what).c_str());
  return exit_code;
}

// Makes a copy that only its owner may read.
absl::Status CopyInto(const std::string& folder, const std::string& from, const char* name) {
  const mode_t mask = umask(0077);
  std::error_code error;
  const fs::path to = fs::path(folder) / name;
  fs::copy_file(from, to, error);
  if (!error) fs::permissions(to, fs::perms::owner_read | fs::perms::owner_write, error);
  umask(mask);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot copy ", from, ": ", error.message()));
}

// Makes a folder for this job alone, mode 0700, in the job's log_dir, which every node can see.
absl::StatusOr<std::string> MakeFolder(const fs::path& log_dir, const std::string& name) {
  std::error_code error;
  fs::create_directories(log_dir, error);
  std::string folder = (log_dir / absl::StrCat("slurm-", name, "-XXXXXX")).string();
  if (!error && mkdtemp(folder.data()) == nullptr) {
    error = std::error_code(errno, std::generic_category());
  }
  if (!error) return folder;
  return absl::UnavailableError(
      absl::StrCat("cannot make the folder ", folder, ": ", error.message()));
}

absl::Status FillFolder(const SlurmCommand& command, const SlurmJob& job) {
  const CredentialsConfig& credentials = job.draft.config.rendezvous.credentials;
  const struct {
    std::string from;
    const char* name;
  } files[] = {{command.path, "job.yaml"},
               {credentials.token_file, "token"},
               {credentials.tls_ca, "ca.crt"},
               {credentials.tls_cert, "node.crt"},
               {credentials.tls_key, "node.key"}};
  for (const auto& file : files) {
    if (file.from.empty()) continue;
    if (absl::Status status = CopyInto(job.folder, file.from, file.name); !status.ok()) {
      return status;
    }
  }
  return WriteFileAtomic(job.folder + "/job.sbatch", SlurmScript(job));
}

// A contradiction between keys that are valid one by one, or "".
std::string Contradiction(const JobDraft& draft) {
  const JobConfig& config = draft.config;
  if (draft.origins.count("report") != 0) {
    return "report: the script has a report of its own, in the job's folder; leave it out";
  }
  const auto time = ParseSlurmTime(config.slurm.time);
  static constexpr absl::string_view kNoLimit[] = {"", "0", "UNLIMITED", "INFINITE"};
  if (!time && !absl::c_linear_search(kNoLimit, config.slurm.time)) {
    return absl::StrCat(
        "slurm.time: expected minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS, as sbatch "
        "takes them (found ",
        Quoted(config.slurm.time), ")");
  }
  if (time && *time <= config.slurm.warning) {
    return absl::StrCat("slurm.time: expected more than the ", FormatDuration(config.slurm.warning),
                        " of slurm.warning, or the job would get the warning at its start (found ",
                        config.slurm.time, ")");
  }
  const int in_slurm = config.slurm.nodes;
  if (draft.origins.count("nodes") != 0 && in_slurm > 0 && in_slurm != config.nodes.max) {
    return absl::StrCat("slurm.nodes: expected ", config.nodes.max, ", the maximum of `nodes` ",
                        "(found ", in_slurm, "); one of the two is enough");
  }
  const int train = in_slurm > 0                        ? in_slurm
                    : draft.origins.count("nodes") != 0 ? config.nodes.max
                                                        : 1;
  if (train == 1 && config.slurm.spare_nodes > 0) {
    return "slurm.spare_nodes: a job of one node cannot have spares; it goes back to the queue "
           "when "
           "its node fails";
  }
  return "";
}

}  // namespace

int SubmitToSlurm(const SlurmCommand& command, const Host& host) {
  SlurmJob job;
  if (const absl::Status status = LoadJobFileInto(command.path, &job.draft); !status.ok()) {
    return Fail(kExitBadConfig, status.message());
  }
  if (const std::string problems = WhatNodesWouldSay(job.draft, command.path, host);
      !problems.empty()) {
    return Fail(kExitBadConfig, problems);
  }
  if (const std::string problem = Contradiction(job.draft); !problem.empty()) {
    return Fail(kExitBadConfig, absl::StrCat(command.path, ": ", problem));
  }
  job.name = fs::path(command.path).stem();
  job.directory = host.CurrentDirectory();
  std::error_code error;
  job.ddprun = fs::read_symlink("/proc/self/exe", error);
  if (error) job.ddprun = "ddprun";
  for (const std::string& name : {job.name, job.directory, job.draft.config.log_dir}) {
    if (!std::any_of(name.begin(), name.end(), absl::ascii_iscntrl)) continue;
    return Fail(kExitBadConfig,
                absl::StrCat("ddprun slurm: a line of the script cannot have a name with control "
                             "characters (found ",
                             Quoted(name), ")"));
  }
  const fs::path log_dir = (fs::path(job.directory) / job.draft.config.log_dir).lexically_normal();
  if (const std::string folder = log_dir / job.name; folder.find('\\') != std::string::npos) {
    return Fail(kExitBadConfig,
                absl::StrCat("log_dir, or the name of the job file: Slurm cannot write into a "
                             "folder with a backslash in its name (found ",
                             folder, ")"));
  }

  std::vector<std::string> words = {"sbatch"};
  words.insert(words.end(), command.sbatch_options.begin(), command.sbatch_options.end());
  if (command.dry_run) {
    job.folder = (log_dir / absl::StrCat("slurm-", job.name, "-XXXXXX")).string();
    for (std::string& word : words) word = BashWord(word);
    words.push_back(BashWord(job.folder + "/job.sbatch"));
    std::printf(
        "%s\n"
        "# ---- the command that submits the script; its options win over the script ----\n"
        "%s\n",
        SlurmDryRun(job).c_str(), absl::StrJoin(words, " ").c_str());
    return 0;
  }
  auto folder = MakeFolder(log_dir, job.name);
  if (!folder.ok()) return Fail(kExitUnavailable, folder.status().message());
  job.folder = *std::move(folder);
  if (const absl::Status status = FillFolder(command, job); !status.ok()) {
    return Fail(kExitUnavailable, status.message());
  }
  words.push_back(job.folder + "/job.sbatch");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp("sbatch", argv.data());
  return Fail(kExitUnavailable,
              absl::StrCat("ddprun slurm: cannot start sbatch: ", std::strerror(errno),
                           "; is this a machine of the cluster? The script is ", words.back()));
}

}  // namespace ddprun
