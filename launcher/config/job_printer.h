// A resolved job as text, for `ddprun validate` and --dry-run. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_JOB_PRINTER_H_
#define DDPRUN_LAUNCHER_CONFIG_JOB_PRINTER_H_

#include <string>

#include "launcher/config/job_config.h"

namespace ddprun {

// A job file with every key and its value. It loads to the same job, except for settings that are
// no keys, such as `verbosity`, --insecure and the node rank. Ends with a newline.
std::string ToYaml(const JobConfig& config);

// The same keys and values as one JSON object on one line, for programs. Ends with a newline.
std::string ToJson(const JobConfig& config);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_JOB_PRINTER_H_
