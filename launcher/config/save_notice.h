// Computes the time that a scheduler's notice leaves for a checkpoint. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_SAVE_NOTICE_H_
#define DDPRUN_LAUNCHER_CONFIG_SAVE_NOTICE_H_

#include <chrono>

#include "launcher/config/job_draft.h"

namespace ddprun {

// `notice`: the time from SIGTERM to SIGKILL. The workers' end takes stop_grace of the job file,
// else `stop_grace`. Of the rest, the scheduler gets 10 s to notice that end, but at most half. The
// result is the remaining time, and at most save_timeout if the job file sets it.
std::chrono::milliseconds SaveTimeoutWithin(std::chrono::milliseconds notice,
                                            std::chrono::milliseconds stop_grace,
                                            const JobDraft& draft);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_SAVE_NOTICE_H_
