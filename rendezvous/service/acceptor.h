// Acceptor: listens and accepts connections for a gRPC server. gRPC cannot do it itself: if its
// accept() fails once (EMFILE), it never accepts again.
//
// A thread of the Acceptor accepts connections, and retries a failed accept(). A connection for
// which the DescriptorGuard has no room is reset at once.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_ACCEPTOR_H_
#define DDPRUN_RENDEZVOUS_SERVICE_ACCEPTOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/service/descriptor_guard.h"
#include "rendezvous/service/listen_address.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class Acceptor {
 public:
  // Take and Log are called on the acceptor's thread.
  using Take = std::function<void(int listener, UniqueFd connection)>;
  // Gets lines about refused connections and failed accept() calls, each kind at most every 10 s.
  using Log = std::function<void(const std::string& text)>;

  // Binds every address that `address.host` resolves to. Skips an address that cannot be bound, but
  // at least one must remain. A wildcard (0.0.0.0 or ::) means IPv6 and IPv4. Port 0: any free
  // port, the same for all addresses. The file of a Unix socket gets mode 0600 before anybody can
  // connect, replaces a stale file, and is removed by Stop. Connections wait until Start. Errors:
  // AlreadyExists if another process listens at one of the addresses, PermissionDenied if this
  // process must not use the TCP port, else Unavailable. The message is usually the system's, in
  // lower case.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Bind(const ListenAddress& address);

  ~Acceptor();  // stops
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  int port() const { return port_; }  // 0 for a Unix socket
  // One of the listening sockets, until Stop: readable while a connection waits.
  int listener() const;

  // Call it once. `guard` must outlive the acceptor.
  void Start(const DescriptorGuard* guard, Take take, Log log);
  // After it returns, `take` is no longer called, and the port is free. Idempotent.
  void Stop();

  std::uint64_t refused() const;  // connections; any thread

 private:
  struct State;
  static absl::StatusOr<std::unique_ptr<Acceptor>> BindUnix(const std::string& path);
  static absl::StatusOr<std::unique_ptr<Acceptor>> BindTcp(const ListenAddress& address);
  explicit Acceptor(std::unique_ptr<State> state, int port);

  const std::unique_ptr<State> state_;
  const int port_;
  std::thread thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_ACCEPTOR_H_
