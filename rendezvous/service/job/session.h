// Session: one Session call of proto/ddprun/v1/rendezvous.proto on the server, an AgentStream over
// gRPC.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_SESSION_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_SESSION_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/service/access_control.h"
#include "rendezvous/service/agent_stream.h"
#include "rendezvous/service/job/job_loop.h"
#include "rendezvous/service/server_call.h"

namespace ddprun {

using SessionCall =
    ServerCall<grpc::ServerAsyncReaderWriter<v1::RendezvousMessage, v1::AgentMessage>>;

// Owns itself while a gRPC operation is pending and until the call has ended. The JobLoop shares
// the ownership until it has closed the session. The thread of the call's queue parses each message
// and passes it to the loop.
class Session final : public AgentStream, public std::enable_shared_from_this<Session> {
 public:
  // Starts serving the call. `slot`: the call's slot of AccessControl.
  static void Begin(std::shared_ptr<JobLoop> loop, AccessControl::Slot slot,
                    std::unique_ptr<SessionCall> call);

  // AgentStream. Called from within the loop.
  void Send(const Header& header, const RendezvousMessage& message) override;
  void RequestMessage() override;
  void Close(const absl::Status& status) override;
  std::string Peer() const override { return peer_; }
  const std::string& Principal() const override { return slot_.principal(); }
  void CountRefusal(const char* reason, const absl::Status& why) override;

 private:
  // Limit of messages that wait for a slow agent. In a generation, an agent gets only a few
  // messages.
  static constexpr std::size_t kMaxQueuedMessages = 256;

  // Limit of messages that were read and that the loop has not handled. The loop requests each
  // message; while it is busy, reading continues up to this limit.
  static constexpr int kMaxUnhandledMessages = 4;

  Session(std::shared_ptr<JobLoop> loop, AccessControl::Slot slot,
          std::unique_ptr<SessionCall> call);

  void OnMetadataSent(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);

  // Counts an operation that is about to be started, and returns its tag. With mutex_ held.
  void* Begin(Operation<Session>& operation);
  // Starts the next read if one is allowed. With mutex_ held.
  void Read();
  // Starts the next write, or Finish after the last write. With mutex_ held.
  void Continue();
  // Call it when an operation is done and no other follows it. The last operation ends the session.
  void Done(std::unique_lock<std::mutex> lock);

  const std::shared_ptr<JobLoop> loop_;
  const std::string peer_;
  AccessControl::Slot slot_;
  Operation<Session> metadata_{this, &Session::OnMetadataSent};
  Operation<Session> read_{this, &Session::OnRead};
  Operation<Session> write_{this, &Session::OnWritten};
  Operation<Session> finish_{this, &Session::OnFinished};

  struct Reading {
    v1::AgentMessage message;  // used by gRPC while `active`, else by OnRead
    bool active = false;
    int allowed = kMaxUnhandledMessages - 1;  // one more comes with the loop's first request
  };
  struct Writing {
    std::deque<v1::RendezvousMessage> queue;  // gRPC uses the front one while `active`
    bool active = false;
    bool broken = false;  // a write failed or the queue was full: nothing more is sent
  };

  std::mutex mutex_;                   // guards the members below
  std::unique_ptr<SessionCall> call_;  // until the session has ended
  int pending_ = 0;                    // pending operations
  Reading reading_;
  Writing writing_;
  std::optional<grpc::Status> end_;  // set by Close
  bool ended_ = false;               // Finish was called

  std::shared_ptr<Session> self_;  // until the session has ended
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_SESSION_H_
