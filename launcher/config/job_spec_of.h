// The settings of a resolved job on which all its agents must agree. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_JOB_SPEC_OF_H_
#define DDPRUN_LAUNCHER_CONFIG_JOB_SPEC_OF_H_

#include "launcher/config/job_config.h"
#include "rendezvous/core/job_spec.h"

namespace ddprun {

JobSpec JobSpecOf(const JobConfig& config);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_JOB_SPEC_OF_H_
