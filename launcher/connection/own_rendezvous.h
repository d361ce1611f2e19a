// OwnRendezvous: the rendezvous of a standalone job, in the process of its agent.
//
// The agent talks to it directly (InProcessClient). Operators come over a Unix socket. Starting
// gRPC takes longer than starting a whole job, and most jobs never need it. So it is started on a
// thread of its own when somebody connects to that socket.
//
// The agent's thread only.
#ifndef DDPRUN_LAUNCHER_CONNECTION_OWN_RENDEZVOUS_H_
#define DDPRUN_LAUNCHER_CONNECTION_OWN_RENDEZVOUS_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "launcher/os/event_loop.h"
#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/service/rendezvous_server.h"

namespace ddprun {

class OwnRendezvous {
 public:
  // `listen`: "unix:/path". `version`: of this program. `loop` outlives the result. Errors:
  // Internal, for the user.
  static absl::StatusOr<std::unique_ptr<OwnRendezvous>> Start(const std::string& listen,
                                                              const std::string& version,
                                                              EventLoop* loop);
  ~OwnRendezvous();
  OwnRendezvous(const OwnRendezvous&) = delete;
  OwnRendezvous& operator=(const OwnRendezvous&) = delete;

  // The agent's client. Not open yet; must be destroyed before this object.
  std::unique_ptr<RendezvousClient> MakeClient();

 private:
  OwnRendezvous(std::unique_ptr<RendezvousServer> server, EventLoop* loop);
  // Somebody has connected.
  void Serve();

  const std::unique_ptr<RendezvousServer> server_;
  EventLoop* const loop_;
  std::thread starts_grpc_;  // from the first connection on
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_OWN_RENDEZVOUS_H_
