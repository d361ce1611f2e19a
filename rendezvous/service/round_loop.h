// RoundLoop: owns the Round of every job.
//
// Events go into a queue. One thread at a time takes them out, steps the Round they belong to, and
// passes the Round's messages on to the agents' streams: the thread that brings an agent's message,
// so that most are answered without waking another; the loop's own where that is busy, for Joins,
// of which many come at once, and when it is time for something. A Tick sees every event that was
// queued before its time, so that a busy loop never takes an agent for silent. What nobody could
// read yet, because the thread that reads is at a long step itself, is silence all the same: tenths
// of a second in the largest jobs.
//
// A job begins with the first Join that names it. When its Round is finished it is kept for a
// while: for `ddprun status`, and for agents that were cut off and come back to hear how it ended.
// A Join of an agent that it does not know begins a new job of that name, while the streams of the
// old one are left to their agents to close.
//
// What a Round wants to be durable goes to the Store, and what the Round says after it waits until
// it is; the loop itself never does.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_ROUND_LOOP_H_
#define DDPRUN_RENDEZVOUS_SERVICE_ROUND_LOOP_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/core/job_event.h"
#include "rendezvous/core/job_record.h"
#include "rendezvous/core/job_status.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/round.h"
#include "rendezvous/core/types.h"
#include "rendezvous/service/agent_stream.h"
#include "rendezvous/service/burst_gate.h"
#include "rendezvous/store/store.h"
#include "rendezvous/wire/limits.h"

namespace ddprun {

// Takes what a person may want to read about a job; `job` is empty while a session has not named
// one. As all that RoundLoop calls: by one thread at a time, from within it; must not block.
using JobLog = std::function<void(std::string_view job, std::string_view text)>;

// What is open now. Called whenever it has changed; must not block.
struct RoundLoopLoad {
  std::size_t sessions = 0;
  std::size_t jobs = 0;        // that are not over
  std::size_t jobs_begun = 0;  // since the start
  // Agents of jobs that are over, which have yet to hear of it: as far as is known, and while there
  // are no sessions and no other jobs.
  std::size_t awaited = 0;
  bool operator==(const RoundLoopLoad&) const = default;
};
using LoadObserver = std::function<void(const RoundLoopLoad&)>;

// Takes the history of the jobs, event by event. `owner` may see it. Must not block.
using EventSink = std::function<void(std::string_view job, std::string_view owner,
                                     std::uint32_t epoch, const JobEvent& event)>;

// A job that an earlier process has recorded.
struct RecordedJob {
  std::string name;
  std::string owner;  // the principal of its first Join
  JobRecord record;
};

struct RoundLoopOptions {
  RoundOptions round{};
  JobLog log;
  LoadObserver load{};     // may be empty
  EventSink events{};      // may be empty
  Store* store = nullptr;  // nullptr: in memory. Not owned; outlives the loop.
  std::vector<RecordedJob> recorded{};
  std::size_t max_jobs = 10'000;                 // that are not over
  Duration time_to_join = wire::kMaxTimeToJoin;  // a session that says nothing is ended then
  // Jobs that are over are kept so long, and so many of them; with so many agents in all.
  Duration keep_ended = std::chrono::hours(24);
  std::size_t max_ended = 256;
  std::size_t max_ended_agents = 20'000;
};

class RoundLoop {
 public:
  // Starts the thread.
  explicit RoundLoop(RoundLoopOptions options);
  // Shuts down.
  ~RoundLoop();
  RoundLoop(const RoundLoop&) = delete;
  RoundLoop& operator=(const RoundLoop&) = delete;

  // Events of a stream, from any thread that holds nothing which the streams need: it may have to
  // handle the event itself. The loop shares the ownership of `stream` from OnOpen until it has
  // closed it. For each stream: one OnOpen, then an OnMessage for
  // each RequestMessage until one OnEnd. After Shutdown a new stream is closed by OnOpen itself.
  void OnOpen(std::shared_ptr<AgentStream> stream);
  void OnMessage(std::shared_ptr<AgentStream> stream, Header header, AgentMessage message);
  // `why`: OK when the agent closed its half or is gone, else what is wrong with it.
  void OnEnd(std::shared_ptr<AgentStream> stream, absl::Status why);

  // From any thread: the agent was killed, and no process of it is left. Ignored when there is no
  // such job or agent. `done` is called once, from within the loop, and must not block; with
  // PermissionDenied if the job is not `principal`'s, after Shutdown at once with Unavailable.
  void OnAgentGone(Header header, std::string principal, std::function<void(absl::Status)> done);

  // For operators, from any thread. `done` is called once, from within the loop, and must not
  // block; after Shutdown it is called at once, with nothing or with Unavailable.
  //
  // The jobs whose owner is `owner`, or all of them where that is empty; of one name only, unless
  // `name` is empty.
  void GetStatus(std::string owner, std::string name,
                 std::function<void(std::vector<JobStatus>)> done);
  // The answer is a sentence for the operator. Errors: NotFound, FailedPrecondition.
  using AnswerCallback = std::function<void(absl::StatusOr<std::string>)>;
  void StopJob(std::string owner, std::string name, bool save, AnswerCallback done);
  // `name` may be empty: then the node is drained from every job that it is in.
  void DrainNode(std::string owner, std::string name, std::string host, AnswerCallback done);

  // Closed while many messages are written; who hears that a write is done passes it.
  BurstGate& gate() { return gate_; }

  // Handles what is queued, closes every stream with Unavailable, and ends the thread. What was
  // sent before is still written. Idempotent; not from within the loop.
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
  struct Committed {
    std::uint64_t batch;
  };
  // Something that somebody asked for; it is told when it is too late for it.
  struct Asked {
    std::function<void()> run;
    std::function<void()> refuse;
  };
  using Event = std::variant<Opened, Message, Ended, Committed, Asked>;

  struct Job {
    Job(std::string name, std::string owner, std::uint32_t epoch, const RoundOptions& options)
        : name(std::move(name)), owner(std::move(owner)), round(this->name, epoch, options) {}
    Job(const RecordedJob& recorded, TimePoint now, const RoundOptions& options)
        : name(recorded.name),
          owner(recorded.owner),
          round(recorded.name, recorded.record, now, options) {}

    const std::string name;
    const std::string owner;  // the principal of its first Join; empty: nobody was asked who he is
    Round round;
    std::unordered_map<std::uint64_t, AgentStream*> streams;  // by incarnation; of sessions_
    std::optional<TimePoint> deadline;                        // as it is in deadlines_
    // What waits until a batch is durable, in the order in which the Round said it.
    std::deque<std::pair<std::uint64_t, Round::Action>> held;
  };
  using JobPtr = std::shared_ptr<Job>;

  struct Session {
    std::shared_ptr<AgentStream> stream;
    JobPtr job;  // nullptr until its Join; outlives the job's place in jobs_
    Incarnation incarnation;
  };

  // Who handles an event.
  enum class By {
    kWhoeverIsNext,  // it has time: nobody is woken for it; within time_to_join at the latest
    kThread,         // the loop's own
    kCaller,         // it and all else that is queued, unless another thread is at it
  };
  // Returns false after Shutdown.
  bool Enqueue(Event event, By by = By::kThread);
  void Run();
  void TakeRecordedJobs();
  // Waits until there is something for the thread, and nobody is at it. False: it is to end. With
  // mutex_ held before and after.
  bool AwaitWork(std::unique_lock<std::mutex>& lock);
  // Handles what is queued, and what it is time for. With mutex_ held before and after.
  void HandleQueue(std::unique_lock<std::mutex>& lock);
  // Leaves the rest to the thread, if there is any. With mutex_ held.
  void EndHandling();
  void Handle(Opened& event);
  void Handle(Message& event);
  void Handle(Ended& event);
  void Handle(Committed& event);
  void Handle(Asked& event) { event.run(); }
  // Takes the session into its job, which begins if there is none, on its first message. False, and
  // the session is closed, when it cannot.
  bool Admit(Session& session, const Header& header, const Join& join);
  // Ends a session for what its agent sent.
  void Refuse(const std::shared_ptr<AgentStream>& stream, const char* counter, absl::Status why);
  // Ends the sessions whose agents the Round has refused: their agents have no more to say.
  void CloseRefused();
  void CloseSilent();
  void Tick();
  std::optional<TimePoint> NextDeadline() const;
  std::size_t AwaitedAgents() const;
  void Step(const JobPtr& job, const Round::Event& event);
  void Perform(Job& job, Round::Action& action);
  void Schedule(const JobPtr& job);
  void SetDeadline(Job& job, std::optional<TimePoint> deadline);
  std::uint64_t Commit(Store::Batch batch);
  void OnFinished(const JobPtr& job);
  void ForgetEnded();
  void Forget(const std::string& name);
  JobPtr FindOwned(const std::string& owner, const std::string& name) const;
  // Forgets the session and closes its stream.
  void Close(AgentStream* stream, const absl::Status& why);

  std::vector<RecordedJob> recorded_;  // until the thread has taken them
  const RoundLoopOptions options_;     // without these
  BurstGate gate_;

  std::mutex mutex_;
  std::condition_variable wake_;  // the thread's
  // Guarded by mutex_.
  std::vector<Event> queue_;
  bool handling_ = true;  // a thread is at what follows further below; first, the loop's own
  bool woken_ = false;    // there is something for the thread
  bool shutdown_ = false;
  TimePoint next_deadline_;  // when there is something to do though nothing comes
  TimePoint sleeps_until_;   // the thread; at the latest

  // Of who has set handling_.
  TimePoint now_;              // when the events in progress were taken out of queue_
  std::vector<Event> events_;  // in progress
  RoundLoopLoad load_;         // as it was told last
  std::size_t jobs_begun_ = 0;
  std::size_t live_jobs_ = 0;
  std::map<std::string, JobPtr> jobs_;
  std::unordered_map<AgentStream*, Session> sessions_;
  // When a session must have joined its job; in the order in which they came.
  std::deque<std::pair<TimePoint, std::weak_ptr<AgentStream>>> unjoined_;
  std::set<std::pair<TimePoint, Job*>> deadlines_;
  struct EndedJob {
    TimePoint at;
    std::weak_ptr<Job> job;
    std::size_t agents;
  };
  std::deque<EndedJob> ended_;  // the oldest first
  std::size_t ended_agents_ = 0;
  std::uint64_t committed_ = 0;                           // batches that went to the store
  std::uint64_t durable_ = 0;                             // of these
  std::deque<std::pair<std::uint64_t, JobPtr>> waiting_;  // jobs with held actions, by batch
  std::vector<std::pair<std::shared_ptr<AgentStream>, std::string>> refused_;  // to be closed; why
  std::uint64_t next_ticket_ = 0;
  std::unordered_map<std::uint64_t, AnswerCallback> answers_;  // by ticket

  std::mutex join_mutex_;  // held while thread_ is joined
  std::thread thread_;     // last: it uses everything above
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_ROUND_LOOP_H_
