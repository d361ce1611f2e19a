// SessionRegistry: the open sessions, and the job and agent of each session that has joined. Finds
// the sessions that have not joined in time.
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

  // `join_by`: the time limit for the Join, not earlier than that of the previous session; nullopt:
  // the session waits until EndWaiting.
  void Add(std::shared_ptr<AgentStream> stream, std::optional<TimePoint> join_by);
  // Sets the time limit for all sessions that have not joined. Call it while all of them wait.
  void EndWaiting(TimePoint join_by);

  // nullptr: the session was closed. The pointer is valid until the session is closed.
  Session* Find(AgentStream* stream);

  // Assigns the session to this agent. Returns the stream of the agent's older session, if there is
  // one.
  AgentStream* Assign(Session& session, JobPtr job, AgentId agent_id);

  // Forgets the session, and closes its stream.
  void Close(AgentStream* stream, const absl::Status& why);
  void CloseAll(const absl::Status& why);

  // A session whose time limit for the Join is over, so it must be closed; nullptr: none.
  std::shared_ptr<AgentStream> FindSilent(TimePoint now);
  // When to call FindSilent next.
  std::optional<TimePoint> NextDeadline() const;

  std::size_t size() const { return sessions_.size(); }

 private:
  std::unordered_map<AgentStream*, Session> sessions_;
  // The time limits of sessions that have not joined, in the order of arrival.
  std::deque<std::pair<TimePoint, std::weak_ptr<AgentStream>>> unjoined_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_SESSION_REGISTRY_H_
