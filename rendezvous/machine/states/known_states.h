// What is known of the states that the nodes of a job hold. Pure functions of what they see.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_STATES_KNOWN_STATES_H_
#define DDPRUN_RENDEZVOUS_MACHINE_STATES_KNOWN_STATES_H_

#include <cstdint>
#include <optional>

#include "rendezvous/machine/job_view.h"

namespace ddprun {

// The step of the newest durable state that a later job would begin with.
std::optional<std::int64_t> DurableStep(const JobView& view);
// No state of a later step can exist; nullopt: that is not known.
std::optional<std::int64_t> FurthestPossibleStep(const JobView& view);
// Some node holds a state that is newer than what the generation began with.
bool HasNewState(const JobView& view);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STATES_KNOWN_STATES_H_
