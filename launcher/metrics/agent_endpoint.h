// AgentEndpoint: `ddprun --http`: /metrics of this node for Prometheus, /healthz and /readyz.
//
// The server and the looking have a thread each. The agent's loop is asked nothing: what it knows
// stands on the NodeBoard. A disk or a driver that hangs costs scrapes, and they alone.
#ifndef DDPRUN_LAUNCHER_METRICS_AGENT_ENDPOINT_H_
#define DDPRUN_LAUNCHER_METRICS_AGENT_ENDPOINT_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "launcher/agent/usage/node_board.h"
#include "launcher/agent/usage/usage_meter.h"
#include "launcher/metrics/agent_metrics.h"
#include "rendezvous/core/job_spec.h"
#include "rendezvous/http/server/http_server.h"
#include "worker/contract/task_queue.h"

namespace ddprun {

class AgentEndpoint {
 public:
  struct Options {
    http::ServerOptions server;
    AgentNames names;
    std::string token{};  // that a scraper must show: Authorization: Bearer TOKEN; empty: none
    bool per_rank = false;
    std::map<std::string, std::string> folders{};       // whose disks are looked at: name, path
    std::map<std::string, std::string> certificates{};  // PEM files, by use; empty path: none
    Duration lease = kDefaultLease;                     // of the job: after it the node is lost
  };

  // Errors as HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<AgentEndpoint>> Start(Options options,
                                                              std::shared_ptr<NodeBoard> board,
                                                              std::shared_ptr<UsageMeter> meter);
  // Leaves a look that hangs behind.
  ~AgentEndpoint();
  AgentEndpoint(const AgentEndpoint&) = delete;
  AgentEndpoint& operator=(const AgentEndpoint&) = delete;

  int port() const { return server_->port(); }
  bool tls() const { return server_->tls(); }

 private:
  class Looker;
  explicit AgentEndpoint(std::shared_ptr<Looker> looker) : looker_(std::move(looker)) {}
  // On the server's thread.
  void Answer(const http::Request& request, std::shared_ptr<http::Responder> responder);

  const std::shared_ptr<Looker> looker_;  // shared with a look that is left behind
  TaskQueue tasks_{"ddprun-metrics"};
  std::unique_ptr<http::HttpServer> server_;  // last: it calls Answer()
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_METRICS_AGENT_ENDPOINT_H_
