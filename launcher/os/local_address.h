// Which address of this host others can reach it by.
//
// Any thread. LocalAddressTowards may block on a name server: call it before the loop runs.
#ifndef DDPRUN_LAUNCHER_OS_LOCAL_ADDRESS_H_
#define DDPRUN_LAUNCHER_OS_LOCAL_ADDRESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

// The numeric address that this host would use to talk to `host` (a name or an address): the one
// that MASTER_ADDR should have for the others. No packet is sent. NotFound when the name does not
// resolve, Unavailable when there is no route.
absl::StatusOr<std::string> LocalAddressTowards(const std::string& host, std::uint16_t port);

// Which of the addresses that `host` (a name or an address) stands for is this host's own, an
// interface's or loopback: the first one, numeric; nullopt when none is. NotFound when the name
// does not resolve. May block on a name server.
absl::StatusOr<std::optional<std::string>> OwnAddress(const std::string& host);

// Whether `host` says that it means this host for itself alone: localhost, 127.x.y.z or ::1. A name
// that merely resolves to such an address, as Debian has it for a host's own name, does not.
bool IsLoopback(const std::string& host);

// localhost has two addresses, 127.0.0.1 and ::1. Where `host` is one of them, binds the port of
// the other without listening on it, so that no other user can. Invalid: there is nothing to bind.
// AlreadyExists: somebody else has that port.
absl::StatusOr<UniqueFd> HoldOtherLoopback(const std::string& host, std::uint16_t port);

// An address of an interface that is up and not loopback, IPv4 before IPv6; nullopt: none.
std::optional<std::string> OutsideAddress();

// Whether somebody listens on the port of this address, which must be this host's own. Waits for an
// answer, which the kernel gives at once, for at most a second.
bool SomebodyListens(const std::string& address, std::uint16_t port);

// This host's name, as `hostname` prints it.
std::string HostName();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_LOCAL_ADDRESS_H_
