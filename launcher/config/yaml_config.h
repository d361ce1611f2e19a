// Reads job files. The only file that reads YAML; yaml-cpp's exceptions end here.
//
// All errors of a file are reported, one per line, in the order of the file, each as
//
//     FILE:LINE:COLUMN: KEY: what was expected (what was found)
//
// where LINE and COLUMN count from 1 and KEY is the whole path, such as rendezvous.endpoint.
#ifndef DDPRUN_LAUNCHER_CONFIG_YAML_CONFIG_H_
#define DDPRUN_LAUNCHER_CONFIG_YAML_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/config/host.h"
#include "launcher/config/job_config.h"
#include "launcher/config/job_draft.h"

namespace ddprun {

// The job that `path` alone describes, resolved for `host`: nothing from flags or DDPRUN_ and PET_
// variables. Errors are kNotFound (no such file) or kInvalidArgument; the message is complete.
absl::StatusOr<JobConfig> LoadJobFile(const std::string& path, const Host& host);

// The same from text; `name` stands for the file in messages.
absl::StatusOr<JobConfig> ParseJob(const std::string& text, const std::string& name,
                                   const Host& host);

// Sets what the file says in `draft`, each with its place as origin, and leaves the rest alone.
absl::Status LoadJobFileInto(const std::string& path, JobDraft* draft);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_YAML_CONFIG_H_
