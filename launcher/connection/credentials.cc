#include "launcher/connection/credentials.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "launcher/connection/connection.h"
#include "launcher/connection/slurm_conf.h"
#include "launcher/connection/state_home.h"
#include "launcher/log.h"
#include "launcher/os/local_address.h"
#include "rendezvous/auth/client_credentials.h"

namespace ddprun {

auth::CredentialOptions CredentialOptionsOf(const CredentialsConfig& config, bool reachable) {
  auth::CredentialOptions options;
  options.token_file = config.token_file;
  options.tls_ca = config.tls_ca;
  options.tls_cert = config.tls_cert;
  options.tls_key = config.tls_key;
  options.munge = config.munge;
  options.munge_socket = config.munge_socket;
  if (config.munge && config.munge_socket.empty()) options.munge_socket = MungeSocketOfSlurm();
  options.reachable = reachable;
  return options;
}

bool IsReachable(const std::string& endpoint) {
  return !endpoint.empty() && !absl::StartsWith(endpoint, "unix:") && !IsLoopback(HostOf(endpoint));
}

std::vector<std::string> CredentialArguments(const CredentialsConfig& config) {
  std::vector<std::string> arguments;
  const auto add = [&](const char* flag, const std::string& value) {
    if (value.empty()) return;
    arguments.emplace_back(flag);
    arguments.push_back(value);
  };
  add("--token-file", config.token_file);
  add("--tls-ca", config.tls_ca);
  add("--tls-cert", config.tls_cert);
  add("--tls-key", config.tls_key);
  if (config.munge) arguments.emplace_back("--munge");
  add("--munge-socket", config.munge_socket);
  return arguments;
}

bool UsesOwnToken(const CredentialsConfig& config, const std::string& host, bool insecure) {
  return !insecure && !CredentialOptionsOf(config, /*reachable=*/false).any() && IsLoopback(host);
}

absl::StatusOr<std::shared_ptr<const auth::ClientCredentials>> LoadCredentials(
    const CredentialsConfig& config, const std::string& endpoint, bool insecure,
    std::function<void(bool ok, const std::string& text)> log) {
  if (const std::string host = HostOf(endpoint); UsesOwnToken(config, host, insecure)) {
    const auto home = StateHome();
    if (!home.ok()) return home.status();
    return auth::ClientCredentials::OfTokenFile(
        TokenPath(EndpointFolderPath(*home, host, PortOf(endpoint))));
  }
  auto credentials = auth::ClientCredentials::Load(
      CredentialOptionsOf(config, IsReachable(endpoint)), std::move(log));
  if (!credentials.ok()) return absl::FailedPreconditionError(credentials.status().message());
  return credentials;
}

absl::StatusOr<std::vector<std::shared_ptr<const auth::ClientCredentials>>> LoadCredentialsOfAll(
    const CredentialsConfig& config, const std::vector<std::string>& endpoints, bool insecure,
    const std::function<void(bool ok, const std::string& text)>& log) {
  std::vector<std::shared_ptr<const auth::ClientCredentials>> all;
  std::map<bool, std::shared_ptr<const auth::ClientCredentials>> shared;  // by IsReachable
  for (const std::string& endpoint : endpoints) {
    const bool own = UsesOwnToken(config, HostOf(endpoint), insecure);
    auto& known = shared[IsReachable(endpoint)];
    if (own || known == nullptr) {
      auto loaded = LoadCredentials(config, endpoint, insecure, log);
      if (!loaded.ok()) return loaded.status();
      all.push_back(*std::move(loaded));
      if (!own) known = all.back();
    } else {
      all.push_back(known);
    }
  }
  return all;
}

void LogTlsFiles(bool ok, const std::string& text) { ok ? LogInfo(text) : LogWarning(text); }

}  // namespace ddprun
