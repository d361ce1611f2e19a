// AgentSession: one Session call of proto/ddprun/v1/rendezvous.proto, from the agent's side. A
// handshake comes first if the agent's credentials are a token or MUNGE. Internal to this folder.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_AGENT_SESSION_H_
#define DDPRUN_RENDEZVOUS_CLIENT_AGENT_SESSION_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/client/channel_source.h"
#include "rendezvous/client/connect_deadline.h"
#include "rendezvous/client/grpc_rendezvous_client.h"
#include "rendezvous/client/handshake_call.h"
#include "rendezvous/client/refusal_check.h"
#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/client/session_loss.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// Owned by its client, and destroyed on the agent's thread. If a thread of gRPC destroyed the last
// channel, that thread would wait for its own end. So after Open, call Close or Abandon before the
// destructor.
class AgentSession final : public grpc::ClientBidiReactor<v1::AgentMessage, v1::RendezvousMessage> {
 public:
  AgentSession(GrpcRendezvousClient::Options options, RendezvousClient::Handler handler);
  ~AgentSession() override;

  // Called on the agent's thread; see RendezvousClient. After Close or Abandon, gRPC has no
  // reference to this object.
  void Open();
  void Send(const Header& header, const AgentMessage& message);
  void Close();
  void Abandon();

  // Called on gRPC's threads.
  void OnReadInitialMetadataDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  AgentSession(GrpcRendezvousClient::Options options, RendezvousClient::Handler handler,
               ChannelSource::Connection connection);

  static constexpr std::chrono::milliseconds kCloseGrace{1000};
  // Bound of the queue, while the session connects or the rendezvous does not read.
  static constexpr std::size_t kMaxQueuedMessages = 1024;

  struct Writing {
    std::deque<v1::AgentMessage> queue;
    // Pieces of log files. A piece is sent only while `queue` is empty, so a heartbeat waits for at
    // most one piece. Bounded, because each reading of a log has a window (ReadLog).
    std::deque<v1::AgentMessage> logs;
    bool allowed = false;  // the Session call was started
    // The queue whose front message gRPC is writing; null: none.
    std::deque<v1::AgentMessage>* active = nullptr;
    bool half_closed = false;
  };

  void OnHandshakeDone(const grpc::Status& status, const absl::StatusOr<std::string>& proof);
  void OnConnectDeadline(std::optional<std::string> reason);
  void StartSession();
  // Waits until gRPC has no reference to this object; at most `grace` for queued messages.
  void Leave(std::chrono::milliseconds grace);
  // Tells the handler that the session is over. `status`: of the session, or of the handshake if
  // the session was not opened.
  void End(const grpc::Status& status);
  // Starts the next write. If this session is closing and all is written, closes this half of the
  // stream. With mutex_ held.
  void Continue();
  // Ends the call with Lost, unless it has already failed. With mutex_ held.
  void Fail(SessionFacts::Failure failure);
  void Cancel();        // the handshake and the session; with mutex_ held
  void RemoveCaller();  // with mutex_ held

  const GrpcRendezvousClient::Options options_;
  const RendezvousClient::Handler handler_;
  const ChannelSource::Connection connection_;
  const std::unique_ptr<v1::Rendezvous::Stub> stub_;
  ConnectDeadline deadline_;
  const std::unique_ptr<HandshakeCall> handshake_;  // null: no handshake
  grpc::ClientContext context_;
  v1::RendezvousMessage incoming_;  // used by gRPC while a read is outstanding, else by OnReadDone

  std::mutex mutex_;
  std::condition_variable callers_changed_;
  // Guarded by mutex_.
  SessionFacts facts_;
  Writing writing_;
  bool closing_ = false;     // Close was called
  bool read_ended_ = false;  // the call is ending: no operation may be started
  // Checks whether every address refuses: gRPC reports only one. Shared with the check's thread.
  std::shared_ptr<RefusalCheck> refusal_check_;
  // Number of callbacks that gRPC still owes: of the call and of the deadline. After the last
  // callback, gRPC does not touch this object.
  int callers_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_AGENT_SESSION_H_
