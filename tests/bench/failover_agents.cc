// The simulated agents of tests/bench/failover_bench.py, which follow several rendezvous until
// SIGTERM. Reports what happens as lines of JSON (following_agents.h).
//
//     build/bin/failover_agents --endpoints H1:P,H2:P,H3:P --agents 256 --job NAME
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "rendezvous/auth/client_credentials.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/following_agents.h"

namespace ddprun {
namespace {

int Main(int argc, char** argv) {
  // As in launcher/main.cc.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app("Simulated agents that follow several rendezvous.");
  FollowingAgents::Options options;
  auth::CredentialOptions credentials;
  credentials.reachable = true;
  int heartbeat_ms = 500;
  app.add_option("--endpoints", options.endpoints)->delimiter(',')->required();
  app.add_option("--agents", options.agents)->required()->check(CLI::PositiveNumber);
  app.add_option("--channels", options.channels, "To each endpoint; 0: one for each agent");
  app.add_option("--job", options.job)->required();
  app.add_option("--heartbeat-ms", heartbeat_ms);
  app.add_option("--tls-ca", credentials.tls_ca);
  app.add_option("--token-file", credentials.token_file);
  CLI11_PARSE(app, argc, argv);
  options.heartbeat = std::chrono::milliseconds(heartbeat_ms);
  const auto loaded = auth::ClientCredentials::Load(credentials);
  if (!loaded.ok()) {
    std::fprintf(stderr, "failover_agents: %s\n", std::string(loaded.status().message()).c_str());
    return 1;
  }
  options.credentials = *loaded;
  RaiseDescriptorLimit();
  const FollowingAgents agents(std::move(options), [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  });
  for (;;) pause();  // SIGTERM ends the process
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) { return ddprun::Main(argc, argv); }
