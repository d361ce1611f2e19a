// JobDraft: a job while it is assembled from the file, the environment and the flags. The strongest
// source wins: flag > environment > file > default. FinishJob() turns it into the validated
// JobConfig. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_JOB_DRAFT_H_
#define DDPRUN_LAUNCHER_CONFIG_JOB_DRAFT_H_

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "launcher/config/host.h"
#include "launcher/config/job_config.h"

namespace ddprun {

// Ordered from weak to strong.
enum class Source { kFile, kEnvironment, kFlag };

// Where a setting was written. Messages about the setting begin with `place`.
struct Origin {
  Source source = Source::kFile;
  std::string place;  // "job.yaml:3:8: nodes", "PET_NNODES" or "--nnodes"
};

struct JobDraft {
  JobDraft() { config.log_dir = "logs"; }

  JobConfig config;
  std::string nproc_per_node = "1";  // also auto, gpu or cpu, until the job is finished
  std::string warm = "0";            // also auto, until the job is finished
  bool no_python = false;
  bool module = false;    // -m
  bool run_path = false;  // --run-path

  std::map<std::string, Origin> origins;  // by key path; a missing key has its default
};

// An error of the job as a whole.
struct JobProblem {
  Source source;        // where to fix it
  std::string message;  // "PLACE: what was expected"
};

// Checks the settings together, resolves `auto`, `gpu` and `cpu` to a number, puts the interpreter
// in front of the command, and makes paths absolute. `where`: source and place for errors about
// settings that are missing, such as the command. The caller sets `logs.verbosity`.
std::variant<JobConfig, std::vector<JobProblem>> FinishJob(const JobDraft& draft,
                                                           const Origin& where, const Host& host);

// The same credentials with absolute paths.
CredentialsConfig AbsolutePaths(CredentialsConfig credentials, const Host& host);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_JOB_DRAFT_H_
