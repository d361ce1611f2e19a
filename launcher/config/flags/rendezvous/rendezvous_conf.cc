#include "launcher/config/flags/rendezvous/rendezvous_conf.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

std::string AsItIs(absl::string_view text) { return std::string(text); }

// torchrun's etcd_prefix may lack the slash in front.
std::string WithSlash(absl::string_view prefix) {
  return absl::StrCat(absl::StartsWith(prefix, "/") ? "" : "/", prefix);
}

constexpr RendezvousSetting kSettings[] = {
    {"join_timeout", "rendezvous.join_timeout", &WithUnit},
    {"last_call_timeout", "rendezvous.last_call", &WithUnit},
    {"timeout", "rendezvous.connect_timeout", &WithUnit},
    {"connect_timeout", "rendezvous.connect_timeout", &WithUnit},
    {"keep_alive_interval", "rendezvous.heartbeat", &WithUnit},
    {"heartbeat", "rendezvous.heartbeat", &WithUnit},
    {"lease", "rendezvous.lease", &WithUnit},
    {"etcd_prefix", "rendezvous.etcd_prefix", &WithSlash},
    {kProtocolSetting, "", &AsItIs},
    {"cacert", "rendezvous.etcd_ca", &AsItIs},
    {"cert", "rendezvous.etcd_cert", &AsItIs},
    {"key", "rendezvous.etcd_key", &AsItIs},
};

}  // namespace

const RendezvousSetting* FindRendezvousSetting(absl::string_view name) {
  for (const RendezvousSetting& setting : kSettings) {
    if (setting.name == name) return &setting;
  }
  return nullptr;
}

std::vector<std::string> RendezvousSettingNames() {
  std::vector<std::string> names;
  for (const RendezvousSetting& setting : kSettings) names.emplace_back(setting.name);
  return names;
}

std::string WithUnit(absl::string_view text) {
  return absl::StrCat(text, ParseWholeNumber(text).has_value() ? "s" : "");
}

std::string WithEtcdPorts(absl::string_view endpoints) {
  // If the text is no list of endpoints, the reader of the key reports this.
  return ParseEndpoints(std::string(endpoints), 1, kEtcdPort).value_or(std::string(endpoints));
}

std::string ProblemOfProtocol(absl::string_view protocol, const EtcdAccess& etcd) {
  if (protocol == "https") {
    return etcd.ca_file.empty() ? "https needs cacert, the authority of etcd's certificates" : "";
  }
  if (protocol != "http") {
    return absl::StrCat("expected http or https (found ", Quoted(protocol), ")");
  }
  return etcd.tls() ? "http has no certificates: say https, or leave cacert, cert and key out" : "";
}

}  // namespace ddprun
