// Tells a rendezvous that an agent is gone and that no process of it is left.
//
// For the agent's guardian, after the agent was killed. Starts gRPC in the process, and blocks.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_REPORT_GONE_H_
#define DDPRUN_RENDEZVOUS_CLIENT_REPORT_GONE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {
namespace auth {
class ClientCredentials;
}

// `agent`: the header of the agent's messages; its generation means nothing. Tries to connect again
// until `limit` is over. The error says why the rendezvous could not be told; then it learns by the
// end of the agent's lease.
// `credentials`: the agent's; null: none.
absl::Status ReportGone(const std::string& endpoint, const Header& agent, Duration limit,
                        std::shared_ptr<const auth::ClientCredentials> credentials = nullptr);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_REPORT_GONE_H_
