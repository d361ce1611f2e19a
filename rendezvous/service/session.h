// One Session call of proto/ddprun/v1/rendezvous.proto on the server: an AgentStream over gRPC.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_SESSION_H_
#define DDPRUN_RENDEZVOUS_SERVICE_SESSION_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/service/agent_stream.h"
#include "rendezvous/service/gate.h"
#include "rendezvous/service/round_loop.h"

namespace ddprun {

// Owned by itself until gRPC is done with the call, and by the RoundLoop until it has closed it.
// gRPC's callbacks translate a message and hand it to the loop, nothing else.
class Session final : public grpc::ServerBidiReactor<v1::AgentMessage, v1::RendezvousMessage>,
                      public AgentStream,
                      public std::enable_shared_from_this<Session> {
 public:
  // Begins to serve the call of `context`, which gRPC keeps alive until OnDone, and which `place`
  // was given to. Returns the reactor for gRPC.
  static std::shared_ptr<Session> Begin(std::shared_ptr<RoundLoop> loop, Gate::Place place,
                                        grpc::CallbackServerContext* context);

  // From any thread: the time to join is over. Ends the session unless its agent has said anything.
  void OnTimeToJoinOver();

  // AgentStream, from the loop's thread.
  void Send(const Header& header, const RendezvousMessage& message) override;
  void RequestMessage() override;
  void Close(const absl::Status& status) override;
  std::string Peer() const override { return peer_; }
  const std::string& Principal() const override { return place_.principal(); }
  void CountRefusal(const char* reason, const absl::Status& why) override;

  // From gRPC's threads, at most one of each kind at a time.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  // So many messages may wait for a slow agent; a healthy one has a handful in a generation.
  static constexpr std::size_t kMaxQueuedMessages = 256;

  // So many messages may be on their way to the loop, which asks for each of them. Reading ahead is
  // done by gRPC's own thread; waiting for the loop each time would cost a switch of threads.
  static constexpr int kMaxUnhandledMessages = 4;

  Session(std::shared_ptr<RoundLoop> loop, Gate::Place place, grpc::CallbackServerContext* context);

  // Starts the next read if there may be one. With mutex_ held.
  void Read();
  // Starts what is next: a write, or the end after the last one. With mutex_ held.
  void Continue();

  const std::shared_ptr<RoundLoop> loop_;
  grpc::CallbackServerContext* const context_;  // valid until OnDone
  const std::string peer_;
  Gate::Place place_;

  v1::AgentMessage incoming_;  // gRPC's while `reading_`, else OnReadDone's

  std::atomic<bool> heard_ = false;  // a whole message has come

  std::mutex mutex_;
  bool reading_ = false;
  int may_read_ = kMaxUnhandledMessages - 1;    // the loop's first request makes it complete
  std::deque<v1::RendezvousMessage> outgoing_;  // the front one is gRPC's while `writing_`
  bool writing_ = false;
  bool broken_ = false;              // a write failed or the queue was full: nothing more is sent
  std::optional<grpc::Status> end_;  // set by Close
  bool ended_ = false;               // Finish was called, or gRPC is done

  std::shared_ptr<Session> self_;  // until OnDone
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_SESSION_H_
