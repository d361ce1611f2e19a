// The addresses by which other hosts can reach this one.
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

// The numeric source address that this host would use to connect to `host` (a name or an address).
// It is the right MASTER_ADDR for other nodes. Sends no packet. NotFound: the name does not
// resolve. Unavailable: no route.
absl::StatusOr<std::string> LocalAddressTowards(const std::string& host, std::uint16_t port);

// The first address of `host` (a name or an address) that belongs to an interface of this host or
// is a loopback address; numeric. nullopt: there is none. NotFound: the name does not resolve. May
// block on a name server.
absl::StatusOr<std::optional<std::string>> OwnAddress(const std::string& host);

// True: `host` is localhost, 127.x.y.z or ::1. False for a name that only resolves to such an
// address, as a host's own name does on Debian.
bool IsLoopback(const std::string& host);

// localhost has two addresses, 127.0.0.1 and ::1. If `host` is one of them, binds the port on the
// other address without listening, so that no other user can bind it. Invalid descriptor: nothing
// to bind. AlreadyExists: another process has that port.
absl::StatusOr<UniqueFd> HoldOtherLoopback(const std::string& host, std::uint16_t port);

// An address of an interface that is up and not loopback, IPv4 before IPv6. Leaves out link-local
// IPv6 addresses. nullopt: none.
std::optional<std::string> OutsideAddress();

// True: a process listens on this port of `address`, which must belong to this host. Waits at most
// a second for the answer; the kernel normally answers at once.
bool SomebodyListens(const std::string& address, std::uint16_t port);

// This host's name, as `hostname` prints it.
std::string HostName();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_LOCAL_ADDRESS_H_
