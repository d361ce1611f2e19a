// The text form of a JobMachine's actions in a scenario: one line for each message and each event.
#ifndef DDPRUN_TESTS_SCENARIO_JOB_TEXT_H_
#define DDPRUN_TESTS_SCENARIO_JOB_TEXT_H_

#include <string>

#include "rendezvous/core/job_event.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/root_cause.h"

namespace ddprun {

std::string Text(const RootCause& cause);
std::string Text(const RendezvousMessage& message);
std::string Text(const JobEvent& event);

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SCENARIO_JOB_TEXT_H_
