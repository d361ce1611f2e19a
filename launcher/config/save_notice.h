// How much of a scheduler's notice is for a checkpoint. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_SAVE_NOTICE_H_
#define DDPRUN_LAUNCHER_CONFIG_SAVE_NOTICE_H_

#include <chrono>

#include "launcher/config/job_draft.h"

namespace ddprun {

// Of `notice`, from SIGTERM to SIGKILL: what is left beside the workers' end, and the time until
// the scheduler has noticed it. Not more than save_timeout where the job file has one. The workers'
// end takes stop_grace, or `stop_grace` where the job file has none.
std::chrono::milliseconds SaveTimeoutWithin(std::chrono::milliseconds notice,
                                            std::chrono::milliseconds stop_grace,
                                            const JobDraft& draft);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_SAVE_NOTICE_H_
