// Tells a rendezvous that an agent is gone and that no process of it is left.
//
// For the agent's guardian, after the agent was killed. Starts gRPC in the process, and blocks.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_REPORT_GONE_H_
#define DDPRUN_RENDEZVOUS_CLIENT_REPORT_GONE_H_

#include <vector>

#include "absl/status/status.h"
#include "rendezvous/client/rendezvous_place.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// `agent`: the header of the agent's messages; its generation is ignored. `places`: one rendezvous,
// or several with one leader. The report goes to the leader, and is repeated if another rendezvous
// leads afterwards. Retries until `limit`; but if there is only one rendezvous, its first answer
// counts. The error says why the report failed. Then the rendezvous notices the loss only when the
// agent's lease ends.
absl::Status ReportGone(const std::vector<RendezvousPlace>& places, const Header& agent,
                        Duration limit);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_REPORT_GONE_H_
