// The rendezvous's end of one agent's session, as JobLoop sees it.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_AGENT_STREAM_H_
#define DDPRUN_RENDEZVOUS_SERVICE_AGENT_STREAM_H_

#include <string>

#include "absl/status/status.h"
#include "rendezvous/core/messages.h"

namespace ddprun {

// Called from within JobLoop only, by one thread at a time. None of the calls blocks or calls
// back.
class AgentStream {
 public:
  virtual ~AgentStream() = default;

  // Queues a message; messages arrive in this order. Dropped when the stream is broken or closed.
  // A stream whose agent does not read breaks itself once too much is queued.
  virtual void Send(const Header& header, const RendezvousMessage& message) = 0;

  // Asks for one more message of the agent, which comes as JobLoop::OnMessage, or OnEnd if there
  // is none. Once for the first, then after each that was handled; a few may come before they are
  // asked for, and no more, so an agent cannot fill the loop's queue.
  virtual void RequestMessage() = 0;

  // Ends the session with `status` after everything that was sent has been written. The last call.
  virtual void Close(const absl::Status& status) = 0;

  // Where the agent connects from, for the log: "ipv4:10.0.0.7:41822".
  virtual std::string Peer() const = 0;

  // Who the agent has shown to be (rendezvous/auth/principal.h); "" where nobody is asked. Does not
  // change.
  virtual const std::string& Principal() const = 0;

  // Counts that the session is about to be closed for this reason (refusal_counters.h).
  virtual void CountRefusal(const char* reason, const absl::Status& why) = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_AGENT_STREAM_H_
