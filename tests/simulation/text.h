// The text of a message, a header or an event in a trace.
#ifndef DDPRUN_TESTS_SIMULATION_TEXT_H_
#define DDPRUN_TESTS_SIMULATION_TEXT_H_

#include <string>

#include "rendezvous/core/job_event.h"
#include "rendezvous/core/messages.h"

namespace ddprun::sim {

std::string Text(const Header& header);
std::string Text(const AgentMessage& message);
std::string Text(const RendezvousMessage& message);
std::string Text(const JobEvent& event);

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_TEXT_H_
