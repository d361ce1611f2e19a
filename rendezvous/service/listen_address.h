// Where a server listens.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LISTEN_ADDRESS_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace ddprun {

struct ListenAddress {
  std::string host;  // without the brackets of an IPv6 address; empty for a Unix socket
  int port = 0;      // 0: any free one
  std::string path;  // path of a Unix socket; empty for TCP

  bool is_unix() const { return !path.empty(); }
};

// Takes "HOST:PORT", "[IPV6]:PORT" or "unix:/path". Error: InvalidArgument.
absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LISTEN_ADDRESS_H_
