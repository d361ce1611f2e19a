// Whether an agent can be in a job. Pure.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_ADMISSION_H_
#define DDPRUN_RENDEZVOUS_MACHINE_ADMISSION_H_

#include <cstddef>
#include <optional>
#include <string>

#include "rendezvous/core/messages.h"

namespace ddprun {

// Why no job could begin with this Join; "" when one could.
std::string WhyMalformed(const Join& join);

// Why an agent that was started with `theirs` cannot be in a job that began with `ours`: the first
// setting that differs, by the name of its flag; "" when it can.
std::string WhyJobDiffers(const JobSpec& ours, const JobSpec& theirs);

// Roles run programs of their own; an agent of an earlier version does not say what it runs.
bool AreComparable(const WorkerProgram& ours, const WorkerProgram& theirs);

// Why an agent that runs `theirs` cannot be in a job in which the node `host` runs `ours`: another
// program in the same role; "" when it can.
std::string WhyProgramDiffers(const WorkerProgram& ours, const std::string& host,
                              const WorkerProgram& theirs);

// The first argument, counted from 1, that two programs of one role are given differently, or only
// one of them is given; nullopt: none, or they are not to be compared.
std::optional<std::size_t> FirstOtherArgument(const WorkerProgram& ours,
                                              const WorkerProgram& theirs);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_ADMISSION_H_
