// Whether an agent can be in a job. Pure.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_ADMISSION_H_
#define DDPRUN_RENDEZVOUS_MACHINE_ADMISSION_H_

#include <string>

#include "rendezvous/core/messages.h"

namespace ddprun {

// Why no job could begin with this Join; "" when one could.
std::string WhyMalformed(const Join& join);

// Why an agent that was started with `theirs` cannot be in a job that began with `ours`: the first
// setting that differs, by the name of its flag; "" when it can.
std::string WhyJobDiffers(const JobSpec& ours, const JobSpec& theirs);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_ADMISSION_H_
