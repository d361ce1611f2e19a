// RoundLoop: one thread that owns the Round of every job.
//
// gRPC's callbacks only put events into its queue. The thread takes them out, steps the Round they
// belong to, and passes the Round's messages on to the agents' streams. A Tick sees every event
// that was queued before its time, so that a busy loop never takes an agent for silent.
//
// A job begins with the first Join that names it and is forgotten as soon as its Round is finished:
// a later Join with the same name begins a new job, while the streams of the old one are left to
// their agents to close.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_ROUND_LOOP_H_
#define DDPRUN_RENDEZVOUS_SERVICE_ROUND_LOOP_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/round.h"
#include "rendezvous/core/types.h"
#include "rendezvous/service/agent_stream.h"

namespace ddprun {

// Takes what a person may want to read about a job; `job` is empty while a session has not named
// one. Called from RoundLoop's thread; must not block.
using JobLog = std::function<void(std::string_view job, std::string_view text)>;

// What is open now. Called from RoundLoop's thread whenever it has changed; must not block.
struct RoundLoopLoad {
  std::size_t sessions = 0;
  std::size_t jobs = 0;
  std::size_t jobs_begun = 0;  // since the start
  bool operator==(const RoundLoopLoad&) const = default;
};
using LoadObserver = std::function<void(const RoundLoopLoad&)>;

class RoundLoop {
 public:
  // Starts the thread. `observer` may be empty.
  RoundLoop(RoundOptions options, JobLog log, LoadObserver observer = {});
  // Shuts down.
  ~RoundLoop();
  RoundLoop(const RoundLoop&) = delete;
  RoundLoop& operator=(const RoundLoop&) = delete;

  // Events of a stream, from any thread; they return at once. The loop shares the ownership of
  // `stream` from OnOpen until it has closed it. For each stream: one OnOpen, then an OnMessage for
  // each RequestMessage until one OnEnd. After Shutdown a new stream is closed by OnOpen itself.
  void OnOpen(std::shared_ptr<AgentStream> stream);
  void OnMessage(std::shared_ptr<AgentStream> stream, Header header, AgentMessage message);
  // `why`: OK when the agent closed its half or is gone, else what is wrong with it.
  void OnEnd(std::shared_ptr<AgentStream> stream, absl::Status why);

  // From any thread: the agent was killed, and no process of it is left. Ignored when there is no
  // such job or agent, or the job is not `principal`'s.
  void OnAgentGone(Header header, std::string principal = {});

  // Handles what is queued, closes every stream with Unavailable, and ends the thread. What was
  // sent before is still written. Idempotent; not from the loop's own thread.
  void Shutdown();

 private:
  struct Opened {
    std::shared_ptr<AgentStream> stream;
  };
  struct Message {
    std::shared_ptr<AgentStream> stream;
    Header header;
    AgentMessage message;
  };
  struct Ended {
    std::shared_ptr<AgentStream> stream;
    absl::Status why;
  };
  struct Gone {
    Header header;
    std::string principal;
  };
  using Event = std::variant<Opened, Message, Ended, Gone>;

  struct Job {
    Round round;
    std::string owner;                            // the principal of its first Join
    std::map<Incarnation, AgentStream*> streams;  // of the agents that have one; owned by sessions_
  };
  struct Session {
    std::shared_ptr<AgentStream> stream;
    std::shared_ptr<Job> job;  // nullptr until its Join; outlives the job's place in jobs_
    std::string job_name;
    Incarnation incarnation;
  };

  // Returns false after Shutdown.
  bool Enqueue(Event event);
  void Run();
  void Handle(Opened& event);
  void Handle(Message& event);
  void Handle(Ended& event);
  void Handle(Gone& event);
  // Takes the session into its job, which begins if there is none, on its first message. False: it
  // may not be in it, and was closed.
  bool Admit(Session& session, const Header& header);
  // Ends a session for what its agent sent.
  void Refuse(const std::shared_ptr<AgentStream>& stream, const char* counter, absl::Status why);
  void Tick();
  std::optional<TimePoint> NextDeadline() const;
  void Step(const std::shared_ptr<Job>& job, const std::string& name, const Round::Event& event);
  // Forgets the session and closes its stream.
  void Close(AgentStream* stream, const absl::Status& why);

  const RoundOptions options_;
  const JobLog log_;
  const LoadObserver observer_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Event> queue_;  // guarded by mutex_
  bool shutdown_ = false;     // guarded by mutex_

  // The thread's own.
  TimePoint now_;       // when the events in progress were taken out of queue_
  RoundLoopLoad load_;  // as it was told last
  std::size_t jobs_begun_ = 0;
  std::map<std::string, std::shared_ptr<Job>> jobs_;
  std::unordered_map<AgentStream*, Session> sessions_;

  std::mutex join_mutex_;  // held while thread_ is joined
  std::thread thread_;     // last: it uses everything above
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_ROUND_LOOP_H_
