// Computes the part of a scheduler's notice that remains for a checkpoint. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_SAVE_NOTICE_H_
#define DDPRUN_LAUNCHER_CONFIG_SAVE_NOTICE_H_

#include <chrono>

#include "launcher/config/job_draft.h"

namespace ddprun {

// `notice`: the time from SIGTERM to SIGKILL. The result is `notice` minus the workers' end and the
// time in which the scheduler notices it, and at most save_timeout if the job file sets it. The
// workers' end takes stop_grace of the job file, else `stop_grace`.
std::chrono::milliseconds SaveTimeoutWithin(std::chrono::milliseconds notice,
                                            std::chrono::milliseconds stop_grace,
                                            const JobDraft& draft);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_SAVE_NOTICE_H_
