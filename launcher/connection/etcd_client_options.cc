#include "launcher/connection/etcd_client_options.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/config/values.h"
#include "launcher/os/local_address.h"

namespace ddprun {
namespace {

bool IsOnThisHost(const std::string& endpoint) {
  const auto parsed = ParseEndpoint(endpoint, 1, std::nullopt);
  return parsed && IsLoopback(parsed->host);
}

}  // namespace

etcd::Options ClientOptionsOf(const EtcdAccess& etcd) {
  etcd::Options options;
  options.endpoints = etcd.endpoints;
  options.ca = etcd.ca_file;
  options.cert = etcd.certificate_file;
  options.key = etcd.key_file;
  options.user = etcd.user;
  options.password_file = etcd.password_file;
  return options;
}

std::vector<std::string> EtcdArguments(const EtcdAccess& etcd) {
  std::vector<std::string> arguments = {"--etcd", absl::StrJoin(etcd.endpoints, ","),
                                        "--etcd-prefix", etcd.prefix};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {flag, value});
  };
  add("--etcd-ca", etcd.ca_file);
  add("--etcd-cert", etcd.certificate_file);
  add("--etcd-key", etcd.key_file);
  add("--etcd-user", etcd.user);
  add("--etcd-password-file", etcd.password_file);
  return arguments;
}

absl::Status CheckEtcd(const EtcdAccess& etcd, bool insecure, const std::string& flag) {
  if (insecure || etcd.tls()) return absl::OkStatus();
  const auto far = std::find_if_not(etcd.endpoints.begin(), etcd.endpoints.end(), IsOnThisHost);
  if (far == etcd.endpoints.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", *far,
                   ": etcd without TLS: anybody who can write its leader key controls all jobs; "
                   "give --etcd-ca, with --etcd-cert and --etcd-key or --etcd-user, or say "
                   "--insecure where the network is trusted; docs/ha.md"));
}

}  // namespace ddprun
