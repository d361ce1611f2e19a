// What the rendezvous knows about the states on the nodes of a job. Pure functions.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_STATES_KNOWN_STATES_H_
#define DDPRUN_RENDEZVOUS_MACHINE_STATES_KNOWN_STATES_H_

#include <cstdint>
#include <optional>

#include "rendezvous/machine/job_view.h"

namespace ddprun {

// The step of the newest durable state. A later run of the job would begin at this step.
std::optional<std::int64_t> DurableStep(const JobView& view);
// The newest checkpoint that workers of this life have reported.
std::optional<SavedState> ReportedCheckpoint(const JobView& view);
// The highest step for which a state can exist; nullopt: not known.
std::optional<std::int64_t> FurthestPossibleStep(const JobView& view);
// True if a node holds a newer state than the one with which the generation began.
bool HasNewState(const JobView& view);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STATES_KNOWN_STATES_H_
