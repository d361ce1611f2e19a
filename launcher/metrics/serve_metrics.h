// Starts the endpoint that --http and its related flags configure.
#ifndef DDPRUN_LAUNCHER_METRICS_SERVE_METRICS_H_
#define DDPRUN_LAUNCHER_METRICS_SERVE_METRICS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/agent/agent_options.h"
#include "launcher/metrics/agent_endpoint.h"

namespace ddprun {

// null without --http. Gives the agent the NodeBoard (launcher/agent/usage/node_board.h) that the
// endpoint reads, and logs the address of the metrics. Error: a token or certificate is missing or
// unreadable; the text names its file or flag. If the endpoint cannot listen, this is only a
// warning, and the result is null: the training can run without metrics.
absl::StatusOr<std::unique_ptr<AgentEndpoint>> ServeMetrics(const AgentNames& names,
                                                            const std::string& run_dir,
                                                            AgentOptions* agent);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_METRICS_SERVE_METRICS_H_
