// One Session call of proto/ddprun/v1/rendezvous.proto on the agent, with the handshake before it
// where the rendezvous asks for one. Internal to this folder.
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

// Owned by its client, and destroyed on the agent's thread: gRPC cannot end its last channel on a
// thread of its own (it would join itself). So after Open, Close comes before the destructor.
class AgentSession final : public grpc::ClientBidiReactor<v1::AgentMessage, v1::RendezvousMessage> {
 public:
  AgentSession(GrpcRendezvousClient::Options options, RendezvousClient::Handler handler);
  ~AgentSession() override;

  // From the agent's thread; see RendezvousClient. After Close, gRPC knows nothing of us.
  void Open();
  void Send(const Header& header, const AgentMessage& message);
  void Close();
  void Abandon();

  // From gRPC's threads.
  void OnReadInitialMetadataDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  AgentSession(GrpcRendezvousClient::Options options, RendezvousClient::Handler handler,
               ChannelSource::Connection connection);

  static constexpr std::chrono::milliseconds kCloseGrace{1000};
  // So many messages may wait for the connection or for a rendezvous that does not read.
  static constexpr std::size_t kMaxQueuedMessages = 1024;

  struct Writing {
    std::deque<v1::AgentMessage> queue;
    // Pieces of log files: each waits until nothing else does, so they delay a heartbeat by one of
    // them at most. Bounded by the windows of their readings.
    std::deque<v1::AgentMessage> logs;
    bool allowed = false;  // the session's call was started
    // Whose front one is gRPC's; null: none.
    std::deque<v1::AgentMessage>* active = nullptr;
    bool half_closed = false;
  };

  void OnHandshakeDone(const grpc::Status& status, const absl::StatusOr<std::string>& proof);
  void OnConnectDeadline(std::optional<std::string> reason);
  void StartSession();
  // Waits until gRPC knows nothing of us; at most `grace` for what is queued.
  void Leave(std::chrono::milliseconds grace);
  // The last of the session or, when that was not opened, of the handshake: tells the handler.
  void End(const grpc::Status& status);
  // Starts what is next: a write, or the end of our half after the last one. With mutex_ held.
  void Continue();
  // Ends the call with Lost, unless it ended already. With mutex_ held.
  void Fail(SessionFacts::Failure failure);
  void Cancel();        // what is going on; with mutex_ held
  void RemoveCaller();  // with mutex_ held

  const GrpcRendezvousClient::Options options_;
  const RendezvousClient::Handler handler_;
  const ChannelSource::Connection connection_;
  const std::unique_ptr<v1::Rendezvous::Stub> stub_;
  ConnectDeadline deadline_;
  const std::unique_ptr<HandshakeCall> handshake_;  // null: nobody asks for one
  grpc::ClientContext context_;
  v1::RendezvousMessage incoming_;  // gRPC's while a read is outstanding, else OnReadDone's

  std::mutex mutex_;
  std::condition_variable callers_changed_;
  // Guarded by mutex_.
  SessionFacts facts_;
  Writing writing_;
  bool closing_ = false;     // Close was called
  bool read_ended_ = false;  // the call is ending: nothing more may be started
  // Looks whether every address refuses us, where gRPC tells of one. Shared with its thread.
  std::shared_ptr<RefusalCheck> refusal_check_;
  // Who of gRPC's will still call us: the call itself, and the deadline. The last one leaves
  // nothing behind that touches the session.
  int callers_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_AGENT_SESSION_H_
