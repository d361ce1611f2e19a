// Keeps a TCP port of this host free for rank 0's store until the workers run.
//
// The port is bound with SO_REUSEADDR, without listening. While it is bound, the kernel does not
// give it to a socket that asks for any free port (bind to port 0, connect). A socket that asks for
// this port with SO_REUSEADDR, like torch's TCPStore, can bind it and listen.
//
// Move-only; one thread.
#ifndef DDPRUN_LAUNCHER_OS_PORT_HOLDER_H_
#define DDPRUN_LAUNCHER_OS_PORT_HOLDER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class PortHolder {
 public:
  // Binds `port`, or a free port if it is 0, on `address`, a numeric IPv4 or IPv6 address. "":
  // every address, like TCPStore: IPv6 and IPv4 together, or IPv4 if there is no IPv6.
  static absl::StatusOr<PortHolder> Bind(const std::string& address = "", int port = 0);

  std::uint16_t port() const { return port_; }

  // Releases the port. port() still returns its number.
  void Release() { socket_.reset(); }

  // Hands the bound socket to the future listener, so that no other process can take the port in
  // between.
  UniqueFd Take() { return std::move(socket_); }

 private:
  PortHolder(UniqueFd socket, std::uint16_t port) : socket_(std::move(socket)), port_(port) {}

  UniqueFd socket_;
  std::uint16_t port_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PORT_HOLDER_H_
