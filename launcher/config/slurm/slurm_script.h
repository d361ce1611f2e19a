// The batch script that `ddprun slurm` submits, and the words of Slurm and bash in it. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_SCRIPT_H_
#define DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_SCRIPT_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "launcher/config/job_draft.h"

namespace ddprun {

struct SlurmJob {
  JobDraft draft;         // what the job file says
  std::string name;       // of the job, where the file gives none
  std::string directory;  // absolute; where the job runs
  std::string folder;     // absolute, of this job alone: job.yaml, and copies of its credentials
  std::string ddprun;     // absolute
};

// One word for bash, whatever is in it.
std::string BashWord(absl::string_view text);
// One word on an #SBATCH line, whatever is in it but line breaks.
std::string SbatchWord(absl::string_view text);

// Of --time: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS. nullopt: without a limit, or no
// time that we can read; sbatch judges it.
std::optional<std::chrono::seconds> ParseSlurmTime(absl::string_view text);

std::string SlurmScript(const SlurmJob& job);
// The command that the script runs on every node.
std::string SlurmCommandLine(const SlurmJob& job);
// What --dry-run prints: the script, that command, and a line for each worker with what its
// environment says, as far as it is known before the start.
std::string SlurmDryRun(const SlurmJob& job);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_SCRIPT_H_
