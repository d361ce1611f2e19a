#include "launcher/metrics/serve_metrics.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "launcher/config/values.h"
#include "launcher/log.h"
#include "launcher/os/local_address.h"
#include "rendezvous/auth/secret_file.h"

namespace ddprun {
namespace {

// "": no token is required.
absl::StatusOr<std::string> ReadToken(const MetricsConfig& metrics, const std::string& host,
                                      bool insecure) {
  if (!metrics.token_file.empty()) {
    auto text = auth::ReadCredentialFile("--http-read-token-file", metrics.token_file,
                                         auth::Readers::kOwner);
    if (!text.ok()) return text;
    std::string token(absl::StripAsciiWhitespace(*text));
    if (!token.empty()) return token;
    return absl::InvalidArgumentError(
        absl::StrCat("--http-read-token-file ", metrics.token_file, " is empty"));
  }
  if (IsLoopback(host) || insecure) return std::string();
  return absl::InvalidArgumentError(absl::StrCat(
      "--http ", metrics.listen,
      ": anybody who can reach this address could read the metrics; give --http-read-token-file, "
      "listen on 127.0.0.1, or say --insecure where the network is trusted"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AgentEndpoint>> ServeMetrics(const AgentNames& names,
                                                            const std::string& run_dir,
                                                            AgentOptions* agent) {
  const JobConfig& config = agent->config;
  const MetricsConfig& metrics = config.told.metrics;
  if (metrics.listen.empty()) return nullptr;
  const std::string host = ParseEndpoint(metrics.listen, 0, 0)->host;  // checked before
  auto token = ReadToken(metrics, host, config.insecure);
  if (!token.ok()) return token.status();
  AgentEndpoint::Options options;
  options.server.listen = metrics.listen;
  options.server.certificate_file = metrics.cert;
  options.server.key_file = metrics.key;
  options.server.self_made_certificate = !config.insecure;
  options.server.log = [](const std::string& text) { LogInfo(text); };
  if (!metrics.name.empty()) options.server.hosts.push_back(metrics.name);
  options.names = names;
  options.token = *std::move(token);
  options.per_rank = metrics.per_rank;
  options.folders["logs"] = run_dir;
  if (!config.checkpoint_dir.empty()) options.folders["checkpoints"] = config.checkpoint_dir;
  options.certificates = {{"grpc", config.rendezvous.credentials.tls_cert}, {"http", metrics.cert}};
  options.lease = config.spec.lease;
  agent->board = std::make_shared<NodeBoard>();
  auto endpoint = AgentEndpoint::Start(std::move(options), agent->board, agent->meter);
  if (absl::IsUnavailable(endpoint.status())) {
    LogWarning(absl::StrCat("this node has no metrics: --http ", metrics.listen, ": ",
                            endpoint.status().message(), "; the job runs without metrics"));
    agent->board = nullptr;
    return nullptr;
  }
  if (endpoint.ok()) {
    LogInfo(absl::StrCat("metrics of this node: ", (*endpoint)->tls() ? "https" : "http", "://",
                         FormatEndpoint({host, (*endpoint)->port()}), "/metrics"));
  }
  return endpoint;
}

}  // namespace ddprun
