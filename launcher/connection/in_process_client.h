// A RendezvousClient of the rendezvous in this process. It passes messages to and from the JobLoop
// unchanged, without gRPC.
//
// It needs no authentication and no flow control, because the agent is the same process.
#ifndef DDPRUN_LAUNCHER_CONNECTION_IN_PROCESS_CLIENT_H_
#define DDPRUN_LAUNCHER_CONNECTION_IN_PROCESS_CLIENT_H_

#include <memory>

#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/service/job/job_loop.h"

namespace ddprun {

class InProcessClient final : public RendezvousClient {
 public:
  // `loop` outlives this object.
  explicit InProcessClient(JobLoop* loop) : loop_(loop) {}
  ~InProcessClient() override { Close(); }

  void Open(Handler handler) override;
  // May handle the message on the calling thread.
  void Send(const Header& header, const AgentMessage& message) override;
  void Close() override;

 private:
  class Stream;

  JobLoop* const loop_;
  std::shared_ptr<Stream> stream_;  // from Open until Close
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_IN_PROCESS_CLIENT_H_
