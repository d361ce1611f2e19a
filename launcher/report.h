// How the job ended, for a person and for a script.
#ifndef DDPRUN_LAUNCHER_REPORT_H_
#define DDPRUN_LAUNCHER_REPORT_H_

#include <string>
#include <vector>

#include "launcher/core/supervisor.h"

namespace ddprun {

struct ReportContext {
  std::string job;
  std::string host;
  std::string run_dir;  // where the logs are
};

// Lines for the terminal: what broke, where, and the last words of the worker that broke. Empty
// for a job that succeeded without a restart.
std::vector<std::string> DescribeVerdict(const Verdict& verdict, const ReportContext& context);

// The JSON of --report; the fields are documented in docs/usage.md.
std::string VerdictToJson(const Verdict& verdict, const ReportContext& context);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_REPORT_H_
