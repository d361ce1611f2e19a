// Keeps a TCP port of this host free for rank 0's store until the workers run.
//
// The port is bound with SO_REUSEADDR and not listened on. As long as it is held the kernel gives
// it to nobody who asks for any port (bind to port 0, connect), while a socket that asks for this
// one with SO_REUSEADDR, as torch's TCPStore does, can bind and listen.
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
  // Takes a free port, or `port`, on `address`, a numeric IPv4 or IPv6 address. "" is every
  // address, which is what TCPStore listens on: IPv6 and IPv4 together, or IPv4 where there is no
  // IPv6.
  static absl::StatusOr<PortHolder> Bind(const std::string& address = "", int port = 0);

  std::uint16_t port() const { return port_; }

  // Gives the port up. port() still says which one it was.
  void Release() { socket_.reset(); }

  // Gives the bound socket to whoever is to listen on it: so nobody can take the port between.
  UniqueFd Take() { return std::move(socket_); }

 private:
  PortHolder(UniqueFd socket, std::uint16_t port) : socket_(std::move(socket)), port_(port) {}

  UniqueFd socket_;
  std::uint16_t port_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PORT_HOLDER_H_
