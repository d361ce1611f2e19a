// The agent's side of a session with the rendezvous.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_RENDEZVOUS_CLIENT_H_
#define DDPRUN_RENDEZVOUS_CLIENT_RENDEZVOUS_CLIENT_H_

#include <functional>
#include <string>
#include <variant>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// One session: opened once, closed once. To connect again, make another client, or let
// launcher/connection/persistent_rendezvous_client.h do so: then Opened comes for every session,
// and Lost for every session and every failed attempt.
//
// Open, Send and Close belong to one thread, the agent's.
class RendezvousClient {
 public:
  // The rendezvous has answered: connected. Comes before anything is received.
  struct Opened {};
  struct Received {
    Header header;
    RendezvousMessage message;
  };
  // The session could not be opened, or it ended without our Close. It comes at most once, and
  // nothing comes after it. `reason` is a sentence for people that names the endpoint.
  struct Lost {
    std::string reason;
    // No connection was made, because every address of the endpoint refused it: nobody listens
    // there. Never said on a guess; an address that is silent or out of reach is no refusal.
    bool refused = false;
    TimePoint attempt_started_at{};  // before the first packet of this attempt was sent
    // The rendezvous does not take our credentials, or we do not take its: trying again is of no
    // use before somebody has changed them.
    bool denied = false;
    // And nobody else who may be the rendezvous could do otherwise: munged is away, here or on its
    // host.
    bool denied_everywhere = false;
    // It closed the connection right after TLS had shaken hands: with TLS 1.3 that is how a client
    // sees that its certificate was not taken; or it was just ending.
    bool closed_after_tls = false;
  };
  using Event = std::variant<Opened, Received, Lost>;

  // Called on a thread of the client, one call at a time. Must only enqueue: it must not block, and
  // must not call the client.
  using Handler = std::function<void(Event)>;

  virtual ~RendezvousClient() = default;

  // Starts to connect, and returns at once.
  virtual void Open(Handler handler) = 0;

  // Queues a message; messages are written in this order once the session is open. Dropped when the
  // session is lost or closed, so an agent that has not read its Lost yet needs no care.
  virtual void Send(const Header& header, const AgentMessage& message) = 0;

  // Writes what is queued, ends the session, and waits until the handler will not be called again:
  // at most about one second, and not at all when no connection was made. No Lost comes because of
  // it. Idempotent.
  virtual void Close() = 0;

  // As Close, but what is queued is dropped, and the network is not waited for: the session is of
  // no use any more.
  virtual void Abandon() { Close(); }
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_RENDEZVOUS_CLIENT_H_
