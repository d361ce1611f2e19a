// Header: the first part of every message.
#ifndef DDPRUN_RENDEZVOUS_CORE_MESSAGES_HEADER_H_
#define DDPRUN_RENDEZVOUS_CORE_MESSAGES_HEADER_H_

#include <cstdint>
#include <string>

#include "rendezvous/core/term.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// On every message, in both directions. A receiver checks it once, on entry: it drops a message
// that does not fit, or refuses its sender.
struct Header {
  std::string job;                   // --rdzv-id
  std::uint32_t requeue_number = 0;  // Slurm's or JobSet's restart count, or 0
  Generation generation;             // the sender's; an answer may repeat that of the message
  AgentId agent_id;                  // the agent's, in both directions
  // The term of the sending rendezvous, if several rendezvous exist. Unused in messages of agents.
  Term term{};

  bool operator==(const Header&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_HEADER_H_
