#include "launcher/metrics/agent_endpoint.h"

#include <sys/statvfs.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "launcher/agent/usage/usage_watch.h"
#include "launcher/os/nvml.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/tls_files.h"
#include "rendezvous/metrics/metric_writer.h"

namespace ddprun {
namespace {

constexpr int kMostWaiting = 8;  // scrapes; further ones are told to retry

http::Response Text(int status, std::string text) {
  http::Response response;
  response.status = status;
  response.body = std::move(text);
  return response;
}

}  // namespace

// Used by the measuring thread, one scrape at a time.
class AgentEndpoint::Looker {
 public:
  Looker(Options options, std::shared_ptr<NodeBoard> board, std::shared_ptr<UsageMeter> meter)
      : options_(std::move(options)), board_(std::move(board)), meter_(std::move(meter)) {}

  const Options& options() const { return options_; }
  std::atomic<int>& waiting() { return waiting_; }

  // "" if the agent sends heartbeats; else why not, for people.
  std::string WhyNotReady() const {
    const std::optional<TimePoint> sent = board_->Get().heartbeat_at;
    if (!sent) return "the agent has not joined its rendezvous yet";
    const Duration silent = std::chrono::steady_clock::now() - *sent;
    if (silent <= options_.lease + 2 * UsageWatch::kTellEvery) return "";
    return absl::StrCat("the agent has sent its rendezvous no heartbeat for ",
                        std::chrono::duration_cast<std::chrono::seconds>(silent).count(), " s");
  }

  std::string Look() {
    if (!std::exchange(looked_for_gpus_, true)) nvml_ = Nvml::Open();
    AgentMeasures measures;
    measures.facts = board_->Get();
    measures.use = meter_->Look(measures.facts.workers);
    measures.per_rank = options_.per_rank;
    measures.cgroup = ReadCgroupUse();
    for (const auto& [name, path] : options_.folders) {
      struct statvfs space {};
      if (statvfs(path.c_str(), &space) != 0) continue;  // not made yet
      measures.folders.push_back({name, static_cast<std::int64_t>(space.f_bavail * space.f_frsize),
                                  static_cast<std::int64_t>(space.f_blocks * space.f_frsize)});
    }
    for (const auto& [use, path] : options_.certificates) {
      const auto expiry = path.empty() ? std::nullopt : auth::ExpiryOf(path);
      if (expiry) measures.certificates.push_back({use, *expiry});
    }
    if (nvml_ != nullptr) measures.gpus = nvml_->Read();
    measures.now = std::chrono::steady_clock::now();
    return AgentMetrics(options_.names, measures);
  }

 private:
  const Options options_;
  const std::shared_ptr<NodeBoard> board_;
  const std::shared_ptr<UsageMeter> meter_;
  std::unique_ptr<Nvml> nvml_;
  bool looked_for_gpus_ = false;
  std::atomic<int> waiting_{0};  // scrapes
};

absl::StatusOr<std::unique_ptr<AgentEndpoint>> AgentEndpoint::Start(
    Options options, std::shared_ptr<NodeBoard> board, std::shared_ptr<UsageMeter> meter) {
  const http::ServerOptions server_options = options.server;
  std::unique_ptr<AgentEndpoint> endpoint(new AgentEndpoint(
      std::make_shared<Looker>(std::move(options), std::move(board), std::move(meter))));
  auto server = http::HttpServer::Start(
      server_options, [endpoint = endpoint.get()](const http::Request& request,
                                                  std::shared_ptr<http::Responder> responder) {
        endpoint->Answer(request, std::move(responder));
      });
  if (!server.ok()) return server.status();
  endpoint->server_ = *std::move(server);
  return endpoint;
}

AgentEndpoint::~AgentEndpoint() {
  if (server_ != nullptr) server_->Shutdown();
  tasks_.CloseWithin(std::chrono::milliseconds(0));
}

void AgentEndpoint::Answer(const http::Request& request,
                           std::shared_ptr<http::Responder> responder) {
  const std::string& token = looker_->options().token;
  if (request.method != "GET" && request.method != "HEAD") {
    return responder->Send(Text(405, "only GET\n"));
  }
  if (request.target_path == "/healthz") return responder->Send(Text(200, "ok\n"));
  if (request.target_path == "/readyz") {
    const std::string why = looker_->WhyNotReady();
    return responder->Send(why.empty() ? Text(200, "ok\n")
                                       : Text(503, absl::StrCat("not ready: ", why, "\n")));
  }
  if (request.target_path != "/metrics") {
    return responder->Send(Text(404, "there are /metrics, /healthz and /readyz\n"));
  }
  if (!token.empty() &&
      !auth::EqualInConstantTime(request.Header("authorization"), absl::StrCat("Bearer ", token))) {
    return responder->Send(Text(401, "Authorization: Bearer TOKEN is missing or wrong\n"));
  }
  if (looker_->waiting().fetch_add(1) >= kMostWaiting) {
    looker_->waiting().fetch_sub(1);
    return responder->Send(Text(503, "too many scrapes wait for an earlier one\n"));
  }
  tasks_.Post([looker = looker_, responder = std::move(responder)] {
    http::Response response = Text(200, looker->Look());
    response.content_type = metrics::kContentType;
    looker->waiting().fetch_sub(1);
    responder->Send(std::move(response));
  });
}

}  // namespace ddprun
