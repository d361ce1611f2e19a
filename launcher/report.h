// How the job ended, for a person and for a script.
#ifndef DDPRUN_LAUNCHER_REPORT_H_
#define DDPRUN_LAUNCHER_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "launcher/core/supervisor.h"

namespace ddprun {

struct ReportContext {
  std::string job;
  std::string host;
  std::string run_dir;  // where the logs are
  std::uint32_t requeue_number = 0;
  bool once = false;  // nothing else is ever called so: Slurm has chosen job and requeue number
};

// Lines for the terminal: what broke, where, and the last words of the worker that broke. Empty
// for a job that succeeded without a restart.
std::vector<std::string> DescribeVerdict(const Verdict& verdict, const ReportContext& context);

// The JSON of --report; the fields are documented in docs/exit-codes.md.
std::string VerdictToJson(const Verdict& verdict, const ReportContext& context);

// Gives the file `path` that JSON, all of it at once. The nodes of a Slurm job name the same file.
// In it the job's end counts more than "preempted", and that more than what only one node came to
// ("left", "refused", "unreachable", or what kept it from starting): what counts less does not take
// the place of what is there of the same job and requeue number.
absl::Status WriteReport(const std::string& path, const Verdict& verdict,
                         const ReportContext& context);

// Copies what the root cause left in its error file to `path`, the launcher's own error file: for
// whoever started ddprun as torchrun is started (torchx, @record). Nothing where it left nothing.
absl::Status CopyErrorFile(const std::string& path, const Verdict& verdict);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_REPORT_H_
