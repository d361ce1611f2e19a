// One Session call of proto/ddprun/v1/rendezvous.proto on the agent. Internal to this folder.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_AGENT_SESSION_H_
#define DDPRUN_RENDEZVOUS_CLIENT_AGENT_SESSION_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/client/refusal_check.h"
#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// Owned by its client, and destroyed on the agent's thread: gRPC cannot end its last channel on a
// thread of its own (it would join itself). So after Open, Close comes before the destructor.
class AgentSession final : public grpc::ClientBidiReactor<v1::AgentMessage, v1::RendezvousMessage> {
 public:
  // `credentials` may be null.
  AgentSession(std::string endpoint, Duration connect_timeout, bool retry,
               std::shared_ptr<const auth::ClientCredentials> credentials,
               RendezvousClient::Handler handler);
  ~AgentSession() override;

  // From the agent's thread; see RendezvousClient. After Close, gRPC knows nothing of us.
  void Open();
  void Send(const Header& header, const AgentMessage& message);
  void Close();

  // From gRPC's threads.
  void OnReadInitialMetadataDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  class Probe;

  static constexpr std::chrono::seconds kCloseGrace{1};
  // So many messages may wait for the connection or for a rendezvous that does not read.
  static constexpr std::size_t kMaxQueuedMessages = 1024;

  // Where the rendezvous asks who we are: the call that comes before the session.
  void StartHandshake();
  void OnHandshakeDone(const grpc::Status& status);
  void StartSession();
  // The last of the session or, when that was not opened, of the handshake: tells the handler.
  void End(const grpc::Status& status);
  void Cancel();  // what is going on; with mutex_ held
  // Starts what is next: a write, or the end of our half after the last one. With mutex_ held.
  void Continue();
  // Ends the call with Lost, unless it ended already. With mutex_ held.
  void Fail(std::string reason, bool denied = false);
  void OnConnectAlarm(bool expired);
  void OnProbed(const grpc::Status& status);
  RendezvousClient::Lost LossOf(const grpc::Status& status) const;  // with mutex_ held
  // Whether `status` says that the connection was refused. With mutex_ held.
  bool WasRefused(const grpc::Status& status) const;
  void RemoveCaller();  // with mutex_ held

  const std::string endpoint_;
  const Duration connect_timeout_;
  const bool retry_;
  const std::shared_ptr<const auth::ClientCredentials> credentials_;
  const RendezvousClient::Handler handler_;
  TimePoint started_at_;  // from Open

  const std::unique_ptr<v1::Rendezvous::Stub> stub_;
  grpc::ClientContext context_;
  grpc::Alarm connect_alarm_;
  std::unique_ptr<Probe> probe_;  // after the connect timeout

  // Of the handshake; gRPC's until OnHandshakeDone.
  grpc::ClientContext handshake_context_;
  v1::HandshakeRequest handshake_request_;
  v1::HandshakeReply handshake_reply_;

  v1::RendezvousMessage incoming_;  // gRPC's while a read is outstanding, else OnReadDone's

  std::mutex mutex_;
  std::condition_variable callers_changed_;
  std::deque<v1::AgentMessage> outgoing_;  // the front one is gRPC's while `writing_`
  bool opened_ = false;   // the session's call is what can be cancelled; before, the handshake
  bool started_ = false;  // it was started
  bool genuine_ = false;  // the rendezvous has proven that it knows our secret
  bool writing_ = false;
  bool connected_ = false;
  bool closing_ = false;  // Close was called
  bool half_closed_ = false;
  bool read_ended_ = false;  // the call is ending: nothing more may be started
  // Looks whether every address refuses us, where gRPC tells of one. Shared with its thread.
  std::shared_ptr<RefusalCheck> refusal_check_;
  // Who of gRPC's will still call us: the call itself, the alarm, and the probe. The last one
  // leaves nothing behind that touches the session.
  int callers_ = 0;
  std::string failure_;  // why we cancelled the call ourselves
  bool denied_ = false;  // with it
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_AGENT_SESSION_H_
