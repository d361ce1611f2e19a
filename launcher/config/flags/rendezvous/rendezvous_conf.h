// torchrun's names of the settings in --rdzv-conf, and the effect of `--rdzv-backend etcd` on the
// flags of a job. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_FLAGS_RENDEZVOUS_RENDEZVOUS_CONF_H_
#define DDPRUN_LAUNCHER_CONFIG_FLAGS_RENDEZVOUS_RENDEZVOUS_CONF_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "launcher/config/etcd/etcd_access.h"

namespace ddprun {

// The protocol to etcd: http or https. It sets no key, because the certificate options decide.
inline constexpr absl::string_view kProtocolSetting = "protocol";

struct RendezvousSetting {
  absl::string_view name;
  absl::string_view key;  // the key that it sets
  std::string (*value)(absl::string_view text);
};

// nullptr: there is no setting of this name.
const RendezvousSetting* FindRendezvousSetting(absl::string_view name);
std::vector<std::string> RendezvousSettingNames();

// A duration in torchrun's syntax: a bare number is seconds.
std::string WithUnit(absl::string_view text);

// The endpoints of --rdzv-endpoint, each with a port; the default is etcd's port.
std::string WithEtcdPorts(absl::string_view endpoints);

// Why this protocol does not fit `etcd`, for people; "": it fits.
std::string ProblemOfProtocol(absl::string_view protocol, const EtcdAccess& etcd);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FLAGS_RENDEZVOUS_RENDEZVOUS_CONF_H_
