// AgentEndpoint: `ddprun --http`. Serves /metrics of this node for Prometheus, /healthz and
// /readyz.
//
// One thread serves, another measures. Neither asks the agent's loop: they read the agent's facts
// from the NodeBoard. A disk or driver that does not answer delays only scrapes.
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
    std::string token{};  // required from scrapers, as Authorization: Bearer TOKEN; empty: none
    bool per_rank = false;
    std::map<std::string, std::string> folders{};  // folders whose disks are measured: name, path
    std::map<std::string, std::string> certificates{};  // PEM files, by use; empty path: none
    Duration lease = kDefaultLease;  // of the job. Not ready: no heartbeat for this time + 2 s
  };

  // Errors: those of HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<AgentEndpoint>> Start(Options options,
                                                              std::shared_ptr<NodeBoard> board,
                                                              std::shared_ptr<UsageMeter> meter);
  // Does not wait for a measurement that hangs.
  ~AgentEndpoint();
  AgentEndpoint(const AgentEndpoint&) = delete;
  AgentEndpoint& operator=(const AgentEndpoint&) = delete;

  int port() const { return server_->port(); }
  bool tls() const { return server_->tls(); }

 private:
  class Looker;
  explicit AgentEndpoint(std::shared_ptr<Looker> looker) : looker_(std::move(looker)) {}
  // Called on the server's thread.
  void Answer(const http::Request& request, std::shared_ptr<http::Responder> responder);

  const std::shared_ptr<Looker> looker_;  // shared with a measurement left behind
  TaskQueue tasks_{"ddprun-metrics"};
  std::unique_ptr<http::HttpServer> server_;  // last: it calls Answer()
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_METRICS_AGENT_ENDPOINT_H_
