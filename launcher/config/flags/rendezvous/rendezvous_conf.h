// What torchrun calls its settings in --rdzv-conf, and what `--rdzv-backend etcd` changes in the
// flags of a job. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_FLAGS_RENDEZVOUS_RENDEZVOUS_CONF_H_
#define DDPRUN_LAUNCHER_CONFIG_FLAGS_RENDEZVOUS_RENDEZVOUS_CONF_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "launcher/config/etcd/etcd_access.h"

namespace ddprun {

// http or https, by which etcd is reached. It sets no key: certificates decide.
inline constexpr absl::string_view kProtocolSetting = "protocol";

struct RendezvousSetting {
  absl::string_view name;
  absl::string_view key;  // that it sets
  std::string (*value)(absl::string_view text);
};

// nullptr: there is none of this name.
const RendezvousSetting* FindRendezvousSetting(absl::string_view name);
std::vector<std::string> RendezvousSettingNames();

// A duration in torchrun's syntax: a bare number is seconds.
std::string WithUnit(absl::string_view text);

// The endpoints of --rdzv-endpoint, each with a port; the default is etcd's port.
std::string WithEtcdPorts(absl::string_view endpoints);

// What is wrong with the protocol, for people; "": nothing.
std::string ProblemOfProtocol(absl::string_view protocol, const EtcdAccess& etcd);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FLAGS_RENDEZVOUS_RENDEZVOUS_CONF_H_
