// SessionRegistry: the sessions that are open, and which agent of which job each of them speaks
// for, once its Join has said so. Knows which have not said it in time.
//
// Owned by JobLoop; from within it only, by one thread at a time.
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

  // `join_by`: no earlier than that of the one before; nullopt: it waits until EndWaiting.
  void Add(std::shared_ptr<AgentStream> stream, std::optional<TimePoint> join_by);
  // Every session that has not joined must have done so by then. While all of them wait.
  void EndWaiting(TimePoint join_by);

  // nullptr: it was closed by us. Valid until the session is closed.
  Session* Find(AgentStream* stream);

  // The session speaks for this agent from now on. Returns the older one's stream, if there is one.
  AgentStream* Assign(Session& session, JobPtr job, AgentId agent_id);

  // Forgets the session, and closes its stream.
  void Close(AgentStream* stream, const absl::Status& why);
  void CloseAll(const absl::Status& why);

  // A session that has not joined by now, though it should have; nullptr: none. To be closed.
  std::shared_ptr<AgentStream> FindSilent(TimePoint now);
  // When to look for one.
  std::optional<TimePoint> NextDeadline() const;

  std::size_t size() const { return sessions_.size(); }

 private:
  std::unordered_map<AgentStream*, Session> sessions_;
  // When a session must have joined its job; in the order in which they came.
  std::deque<std::pair<TimePoint, std::weak_ptr<AgentStream>>> unjoined_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_SESSION_REGISTRY_H_
