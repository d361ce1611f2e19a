// Which address of this host others can reach it by.
//
// Any thread. LocalAddressTowards may block on a name server: call it before the loop runs.
#ifndef DDPRUN_LAUNCHER_OS_LOCAL_ADDRESS_H_
#define DDPRUN_LAUNCHER_OS_LOCAL_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ddprun {

// The numeric address that this host would use to talk to `host` (a name or an address): the one
// that MASTER_ADDR should have for the others. No packet is sent. NotFound when the name does not
// resolve, Unavailable when there is no route.
absl::StatusOr<std::string> LocalAddressTowards(const std::string& host, std::uint16_t port);

// This host's name, as `hostname` prints it.
std::string HostName();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_LOCAL_ADDRESS_H_
