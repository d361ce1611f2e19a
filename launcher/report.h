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
  bool once = false;  // Slurm has chosen job and requeue number, so they are unique
};

// Lines for the terminal: the root cause, its place, and the last lines of the failed worker. Empty
// for a job that succeeded without a restart and left out no host.
std::vector<std::string> DescribeVerdict(const Verdict& verdict, const ReportContext& context);

// The JSON of --report; the fields are documented in docs/exit-codes.md.
std::string VerdictToJson(const Verdict& verdict, const ReportContext& context);

// Writes this JSON to `path`, atomically. If the nodes of a Slurm job name the same file, a report
// does not replace a more important report of the same job and requeue number. Order of importance:
// the job's end; "preempted"; the end of a single node ("left", "refused", "unreachable", or a
// failed start). Of two reports of single nodes the first one stays.
absl::Status WriteReport(const std::string& path, const Verdict& verdict,
                         const ReportContext& context);

// Copies the root cause's error file to `path`, the launcher's own error file, for programs that
// start ddprun like torchrun (torchx, @record). Does nothing if the root cause has no error file.
absl::Status CopyErrorFile(const std::string& path, const Verdict& verdict);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_REPORT_H_
