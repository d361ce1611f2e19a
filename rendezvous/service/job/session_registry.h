// SessionRegistry: the open sessions, and each one's job and agent once it has joined. Finds the
// sessions that have not joined in time.
//
// Owned by JobLoop, and called only from within it, by one thread at a time.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_SESSION_REGISTRY_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_SESSION_REGISTRY_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "rendezvous/core/types.h"
#include "rendezvous/service/agent_stream.h"
#include "rendezvous/service/job/served_job.h"

namespace ddprun {

class SessionRegistry {
 public:
  struct Session {
    std::shared_ptr<AgentStream> stream;
    JobPtr job;  // nullptr until its Join
    AgentId agent_id;
  };

  // `join_by`: not earlier than that of the previous session.
  void Add(std::shared_ptr<AgentStream> stream, TimePoint join_by);

  // nullptr: the session was closed. The pointer is valid until the session is closed.
  Session* Find(AgentStream* stream);

  // Assigns the session to this agent. Returns the stream of the agent's older session, if there is
  // one.
  AgentStream* Assign(Session& session, JobPtr job, AgentId agent_id);

  // Forgets the session, and closes its stream.
  void Close(AgentStream* stream, const absl::Status& why);
  void CloseAll(const absl::Status& why);

  // A session whose time to join is over, to be closed; nullptr: none.
  std::shared_ptr<AgentStream> FindSilent(TimePoint now);
  // When to call FindSilent next.
  std::optional<TimePoint> NextDeadline() const;

  std::size_t size() const { return sessions_.size(); }

 private:
  std::unordered_map<AgentStream*, Session> sessions_;
  // By when each session must join, in the order of arrival.
  std::deque<std::pair<TimePoint, std::weak_ptr<AgentStream>>> unjoined_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_SESSION_REGISTRY_H_
