// What --http and its neighbours ask for: the endpoint of an agent that is about to run.
#ifndef DDPRUN_LAUNCHER_METRICS_SERVE_METRICS_H_
#define DDPRUN_LAUNCHER_METRICS_SERVE_METRICS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/agent/agent_options.h"
#include "launcher/metrics/agent_endpoint.h"

namespace ddprun {

// null without --http. Gives the agent the NodeBoard that the endpoint reads, and logs where the
// metrics are. Errors name the flag: a token or certificate that is missing or cannot be read.
// An address on which it cannot listen is no error: it warns, and gives null. The training is worth
// more than its metrics.
absl::StatusOr<std::unique_ptr<AgentEndpoint>> ServeMetrics(const AgentNames& names,
                                                            const std::string& run_dir,
                                                            AgentOptions* agent);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_METRICS_SERVE_METRICS_H_
