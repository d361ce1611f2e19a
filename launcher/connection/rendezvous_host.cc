#include "launcher/connection/rendezvous_host.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/connection/state_home.h"
#include "launcher/log.h"
#include "launcher/os/local_address.h"

namespace ddprun {
namespace {

constexpr char kFirstAgentWithin[] = "60s";  // for the first agent

std::string HostAndPort(const std::string& host, int port) {
  const bool ipv6 = absl::StrContains(host, ':');
  return absl::StrCat(ipv6 ? "[" : "", host, ipv6 ? "]:" : ":", port);
}

// A name of this host that stands for loopback, as Debian has it for a host's own name, means
// another address to the other nodes: then every address.
std::string AddressToListenOn(const std::string& host, const std::string& address) {
  if (IsLoopback(host) || !IsLoopback(address)) return address;
  return address == "::1" ? "::" : "0.0.0.0";
}

}  // namespace

RendezvousHost::RendezvousHost(Options options, std::string address, std::string listen_address)
    : options_(std::move(options)),
      address_(std::move(address)),
      listen_address_(std::move(listen_address)) {}

absl::StatusOr<std::unique_ptr<RendezvousHost>> RendezvousHost::Create(Options options) {
  const auto address = OwnAddress(options.host);
  if (!address.ok()) return address.status();
  if (!address->has_value()) return nullptr;
  const std::string listen_address = AddressToListenOn(options.host, **address);
  if (!IsLoopback(listen_address) && !options.insecure && !options.asks_who_calls &&
      !SomebodyListens(**address, options.port)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the rendezvous of this job is to run on this node, at ",
        HostAndPort(options.host, options.port),
        ", where whoever can reach the address could join or end the job: give all nodes the same "
        "--token-file or certificates (--tls-ca, --tls-cert, --tls-key), or say --insecure where "
        "the network is trusted; docs/security.md"));
  }
  // The rendezvous would say so only in its log.
  if (const auto home = StateHome(); !home.ok()) return home.status();
  return std::unique_ptr<RendezvousHost>(
      new RendezvousHost(std::move(options), **address, listen_address));
}

bool RendezvousHost::SomebodyListensHere() const {
  return SomebodyListens(address_, options_.port);
}

bool RendezvousHost::EnsureRunning() {
  if (process_.running()) return true;
  if (SomebodyListensHere()) return false;
  std::vector<std::string> arguments = {
      "rendezvous",          "--listen",        HostAndPort(listen_address_, options_.port),
      "--until-idle",        kFirstAgentWithin, "--starter",
      absl::StrCat(getpid())};
  if (options_.insecure) arguments.emplace_back("--insecure");
  arguments.insert(arguments.end(), options_.credentials.begin(), options_.credentials.end());
  if (const absl::Status status = process_.StartSelf(arguments, options_.log_file); !status.ok()) {
    LogWarning(status.message());
    return false;
  }
  LogInfo(absl::StrCat("nobody listens on ", HostAndPort(options_.host, options_.port),
                       ": starting the rendezvous there, which says more in ", options_.log_file));
  return true;
}

RendezvousHosts::RendezvousHosts(std::vector<std::unique_ptr<RendezvousHost>> hosts)
    : hosts_(std::move(hosts)) {}

bool RendezvousHosts::EnsureRunning(int place) {
  tried_.insert(place);
  const bool all_tried = tried_.size() == hosts_.size();
  const bool nobody_listens =
      std::ranges::none_of(hosts_, [](const auto& host) { return host->SomebodyListensHere(); });
  return (all_tried || nobody_listens) && hosts_[place]->EnsureRunning();
}

}  // namespace ddprun
