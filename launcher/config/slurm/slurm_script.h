// The batch script that `ddprun slurm` submits, and the quoting of its words. Pure.
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
  JobDraft draft;         // settings of the job file
  std::string name;       // the job's name if the file sets none
  std::string directory;  // absolute; where the job runs
  std::string folder;     // absolute; only for this job: has job.yaml and copies of its credentials
  std::string ddprun;     // absolute
};

// Quotes any text as one word for bash.
std::string BashWord(absl::string_view text);
// Quotes any text without line breaks as one word on an #SBATCH line.
std::string SbatchWord(absl::string_view text);

// Parses --time: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS. nullopt: 0, which is no
// limit, or another form.
std::optional<std::chrono::seconds> ParseSlurmTime(absl::string_view text);

std::string SlurmScript(const SlurmJob& job);
// The command that the script runs on every node.
std::string SlurmCommandLine(const SlurmJob& job);
// The output of --dry-run: the script, the command line, and one line per worker with the variables
// of its environment that are known before the start.
std::string SlurmDryRun(const SlurmJob& job);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_SLURM_SLURM_SCRIPT_H_
