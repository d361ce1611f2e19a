// AgentStream: the rendezvous' end of one agent's session, as JobLoop sees it.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_AGENT_STREAM_H_
#define DDPRUN_RENDEZVOUS_SERVICE_AGENT_STREAM_H_

#include <string>

#include "absl/status/status.h"
#include "rendezvous/core/messages.h"

namespace ddprun {

// Called from within JobLoop only, by one thread at a time. No function blocks, and none calls the
// JobLoop.
class AgentStream {
 public:
  virtual ~AgentStream() = default;

  // Queues a message; messages arrive in this order. Drops it if the stream is broken or closed. If
  // the agent does not read, the stream breaks once too much is queued.
  virtual void Send(const Header& header, const RendezvousMessage& message) = 0;

  // Requests one more message of the agent. The message comes as JobLoop::OnMessage, or the end as
  // JobLoop::OnEnd. Call it once for the first message, then after each handled message. The stream
  // of a remote agent reads only a few messages before they are requested, so such an agent cannot
  // fill the loop's queue. The stream of a client in this process does not wait.
  virtual void RequestMessage() = 0;

  // Ends the session with `status` after everything that was sent has been written. The last call.
  virtual void Close(const absl::Status& status) = 0;

  // The agent's address, for the log: "ipv4:10.0.0.7:41822".
  virtual std::string Peer() const = 0;

  // The agent's proven identity (rendezvous/auth/principal.h); "": no credentials are needed. Does
  // not change.
  virtual const std::string& Principal() const = 0;

  // Counts a refusal for this reason (refusal_counters.h): the session is about to be closed.
  virtual void CountRefusal(const char* reason, const absl::Status& why) = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_AGENT_STREAM_H_
