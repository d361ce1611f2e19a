// Header: what every message begins with.
#ifndef DDPRUN_RENDEZVOUS_CORE_MESSAGES_HEADER_H_
#define DDPRUN_RENDEZVOUS_CORE_MESSAGES_HEADER_H_

#include <cstdint>
#include <string>

#include "rendezvous/core/term.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// On every message, both ways. A receiver drops what does not fit its own, once, on entry.
struct Header {
  std::string job;                   // --rdzv-id
  std::uint32_t requeue_number = 0;  // 0, or Slurm's restart count
  Generation generation;             // the one the sender acts in
  AgentId agent_id;                  // the agent's, whichever way the message goes
  // Of the rendezvous that sends it, where it is one of several; messages of agents mean nothing
  // by it.
  Term term{};

  bool operator==(const Header&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_HEADER_H_
