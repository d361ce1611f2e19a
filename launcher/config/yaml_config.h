// Reads job files. The only code that reads YAML; it catches yaml-cpp's exceptions.
//
// All wrong keys of a file are reported, one per line, in the order of the file, each as
//
//     FILE:LINE:COLUMN: KEY: what was expected (what was found)
//
// where LINE and COLUMN count from 1 and KEY is the whole path, such as rendezvous.endpoint. If no
// key alone is wrong, contradictions between keys are reported. A text that is not YAML gives one
// error, without KEY.
#ifndef DDPRUN_LAUNCHER_CONFIG_YAML_CONFIG_H_
#define DDPRUN_LAUNCHER_CONFIG_YAML_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/config/host.h"
#include "launcher/config/job_config.h"
#include "launcher/config/job_draft.h"

namespace ddprun {

// The job of the file `path`, resolved for `host`, without flags and without DDPRUN_ and PET_
// variables. Errors: NotFound (no such file) or InvalidArgument; the message is complete.
absl::StatusOr<JobConfig> LoadJobFile(const std::string& path, const Host& host);

// The same from text; messages use `name` as the file.
absl::StatusOr<JobConfig> ParseJob(const std::string& text, const std::string& name,
                                   const Host& host);

// Sets the file's settings in `draft`, with their places as origins. Leaves other settings
// unchanged.
absl::Status LoadJobFileInto(const std::string& path, JobDraft* draft);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_YAML_CONFIG_H_
