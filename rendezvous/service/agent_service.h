// AgentService: the Rendezvous service of proto/ddprun/v1/rendezvous.proto: sessions of agents,
// reports of guardians, handshakes, and Follow calls.
//
// The threads of the CallQueues serve its calls. If AccessControl may have to wait for munged, the
// threads of SlowCalls begin all calls except Follow, which needs no credentials.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_AGENT_SERVICE_H_
#define DDPRUN_RENDEZVOUS_SERVICE_AGENT_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/service/access_control.h"
#include "rendezvous/service/call_queues.h"
#include "rendezvous/service/descriptor_guard.h"
#include "rendezvous/service/job/job_loop.h"
#include "rendezvous/service/job/session.h"
#include "rendezvous/service/leadership/follow_call.h"
#include "rendezvous/service/leadership/leader_board.h"
#include "rendezvous/service/server_call.h"
#include "rendezvous/service/slow_calls.h"

namespace ddprun {

class AgentService {
 public:
  // `descriptors` must outlive this object. `board` null: the rendezvous is alone.
  AgentService(std::shared_ptr<JobLoop> loop, std::shared_ptr<AccessControl> access,
               const DescriptorGuard* descriptors, std::shared_ptr<LeaderBoard> board);

  // Register it with the server.
  grpc::Service* service() { return &service_; }

  // Takes calls until the server shuts down. Call it once, when the server runs. `queues`, `slow`
  // and this object must live until the queues and slow's tasks are shut down.
  void Serve(CallQueues* queues, SlowCalls* slow);

 private:
  using GoneCall = UnaryCall<v1::GoneReport, v1::GoneReceived>;
  using HandshakeCall = UnaryCall<v1::HandshakeRequest, v1::HandshakeReply>;

  void BeginSession(std::unique_ptr<SessionCall> call);
  void ReportGone(std::unique_ptr<GoneCall> call);
  void Handshake(std::unique_ptr<HandshakeCall> call);
  void Follow(std::unique_ptr<FollowCall> call);
  absl::StatusOr<AccessControl::Slot> EnterFollower(const FollowCall& call, Duration interval);

  const std::shared_ptr<JobLoop> loop_;
  const std::shared_ptr<AccessControl> access_;
  const DescriptorGuard* const descriptors_;
  const std::shared_ptr<LeaderBoard> board_;
  v1::Rendezvous::AsyncService service_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_AGENT_SERVICE_H_
