// RendezvousClient: the agent's side of a session with the rendezvous.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_RENDEZVOUS_CLIENT_H_
#define DDPRUN_RENDEZVOUS_CLIENT_RENDEZVOUS_CLIENT_H_

#include <functional>
#include <string>
#include <variant>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// One session: opened once, closed once. To connect again, make another client. Or use
// launcher/connection/persistent_rendezvous_client.h: it sends Opened for every session, and Lost
// for every session and every failed attempt.
//
// Open, Send, Close and Abandon belong to one thread, the agent's.
class RendezvousClient {
 public:
  // The rendezvous has answered. Comes before the first Received.
  struct Opened {};
  struct Received {
    Header header;
    RendezvousMessage message;
  };
  // The session could not be opened, or it ended without a Close. At most one, and the last event.
  // `reason` is a sentence for people that names the endpoint.
  struct Lost {
    std::string reason;
    // Every address of the endpoint refused the connection, so no process listens there. Set only
    // if this is certain: an address that is silent or out of reach has not refused.
    bool refused = false;
    TimePoint attempt_started_at{};  // before the first packet of this attempt was sent
    // One side does not accept the credentials of the other, or the job belongs to somebody else.
    // Retrying is useless until somebody changes the credentials.
    bool denied = false;
    // `denied`, and every other rendezvous would give the same answer: munged is away, on this host
    // or on the rendezvous's host.
    bool denied_everywhere = false;
    // The rendezvous closed the connection right after the TLS handshake. Two causes look like
    // this: with TLS 1.3 the rendezvous refused the client certificate; or the rendezvous was just
    // ending.
    bool closed_after_tls = false;
    // At every place where this agent may start a rendezvous, the rendezvous has ended and would
    // end again. Waiting does not help (RendezvousHosts::WhenUseless).
    bool useless = false;
  };
  using Event = std::variant<Opened, Received, Lost>;

  // Called on the client's threads, one call at a time. Must only enqueue: it must not block, and
  // must not call the client.
  using Handler = std::function<void(Event)>;

  virtual ~RendezvousClient() = default;

  // Starts to connect, and returns at once.
  virtual void Open(Handler handler) = 0;

  // Queues a message. Queued messages are written in order once the session is open. After the
  // session is lost or closed they are dropped, so an agent that has not seen Lost yet may still
  // send.
  virtual void Send(const Header& header, const AgentMessage& message) = 0;

  // Writes the queued messages, ends the session, and waits until the handler will not be called
  // again. It waits at most about one second. If the session is not open yet, it does not wait for
  // the network. Causes no Lost. Idempotent.
  virtual void Close() = 0;

  // Like Close, but drops the queued messages and does not wait for the network.
  virtual void Abandon() { Close(); }
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_RENDEZVOUS_CLIENT_H_
