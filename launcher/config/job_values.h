// The values of job keys as text: their expected form, parsing and printing. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_JOB_VALUES_H_
#define DDPRUN_LAUNCHER_CONFIG_JOB_VALUES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "launcher/config/job_draft.h"
#include "launcher/config/job_keys.h"

namespace ddprun {

// The expected form of a value: "a whole number from 0 to 1000000".
std::string Expected(const JobKey& key);

// Whether `word` can be an element of a value of type kOptions.
bool IsOption(absl::string_view word);

// The error for an invalid value: "expected ... (found ...)".
absl::Status UnexpectedValue(const JobKey& key, absl::string_view found);

// Sets the member of `draft` for `key` from a scalar value's text. The error says what was
// expected. For every type except kEnvironment.
absl::Status SetFromText(const JobKey& key, absl::string_view text, JobDraft* draft);

// The value of a key in the syntax of job files. Not for kCommand, kOptions and kEnvironment.
std::string FormatValue(const JobKey& key, const JobDraft& draft);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_JOB_VALUES_H_
