#include <chrono>
#include <cstdio>
#include <string>

#include "launcher/commands/commands.h"
#include "launcher/os/local_address.h"
#include "rendezvous/auth/certificates.h"

namespace ddprun {
namespace {

// Names by which other nodes may know this host.
std::vector<std::string> ThisHost() {
  std::vector<std::string> names = {HostName()};
  if (const auto address = OutsideAddress(); address.has_value()) names.push_back(*address);
  return names;
}

}  // namespace

int MakeCerts(const CertsCommand& command) {
  auth::CertificatesToMake what{command.folder, command.name, command.nodes,
                                std::chrono::hours(24 * command.days)};
  if (what.nodes.empty()) what.nodes.push_back(ThisHost());
  const auto paths = auth::MakeCertificates(what);
  if (!paths.ok()) {
    std::fprintf(stderr, "ddprun certs: %s\n", std::string(paths.status().message()).c_str());
    return absl::IsInvalidArgument(paths.status()) ? kExitUsage : 1;
  }
  for (const std::string& path : *paths) std::printf("%s\n", path.c_str());
  return 0;
}

}  // namespace ddprun
