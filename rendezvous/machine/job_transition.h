// The allowed transitions between the states of a job. job_machine.h lists the main ones.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_JOB_TRANSITION_H_
#define DDPRUN_RENDEZVOUS_MACHINE_JOB_TRANSITION_H_

#include "rendezvous/core/job_status.h"

namespace ddprun {

bool IsTransition(JobState from, JobState to);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_TRANSITION_H_
