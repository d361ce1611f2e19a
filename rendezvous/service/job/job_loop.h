// JobLoop: owns the JobMachine of every job, and passes events to it and its messages on.
//
// It composes six parts: the SerialExecutor decides which thread handles an event, the
// SessionRegistry knows who is connected, OutputCommit keeps back what a JobMachine says until the
// state that it rests on is durable, the Outboxes send to thousands in portions, EndedJobs tells
// how long a finished job stays known, the LogRelay carries log files to their readers.
//
// The thread that handles an event also sends the JobMachine's messages. This is mostly the thread
// of the agent's call, so that no other thread has to wake. The executor's own thread handles
// deadlines, and Joins, since many come at once. A Tick sees every event that was queued before its
// time, so a busy loop does not take an agent for silent whose message is queued. A message that
// was not read from the network yet does not count.
//
// Two things take long in large jobs. To send to thousands of agents is done in portions of a
// millisecond, and what other agents have sent is handled between them; a job's own messages keep
// their order. The stacks of thousands of nodes are merged by the StackWorker.
//
// A job begins with the first Join that names it. A Join of an agent that a finished job does not
// know begins a new job of that name, while the streams of the old one are left to their agents to
// close.
//
// Where the Store says that another process may write in our place, nobody is acknowledged any
// more: every session ends with Unavailable, none is taken, and the owner is told.
//
// One of several (JobLoopOptions::validity) has no job and takes no session until it leads. Then it
// speaks while its validity holds. Meanwhile heartbeats are not acknowledged, and whatever else the
// JobMachines say is kept back in its order.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_JOB_LOOP_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_JOB_LOOP_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/core/job_event.h"
#include "rendezvous/core/job_status.h"
#include "rendezvous/core/measures/histogram.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/term.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/job_machine.h"
#include "rendezvous/service/agent_stream.h"
#include "rendezvous/service/completion_barrier.h"
#include "rendezvous/service/job/ended_jobs.h"
#include "rendezvous/service/job/log_request.h"
#include "rendezvous/service/job/logs/log_relay.h"
#include "rendezvous/service/job/outboxes.h"
#include "rendezvous/service/job/output_commit.h"
#include "rendezvous/service/job/serial_executor.h"
#include "rendezvous/service/job/served_job.h"
#include "rendezvous/service/job/session_registry.h"
#include "rendezvous/service/job/stack_worker.h"
#include "rendezvous/service/leadership/reign.h"
#include "rendezvous/service/leadership/validity.h"
#include "rendezvous/store/store.h"
#include "rendezvous/wire/limits.h"

namespace ddprun {

// Takes what a person may want to read about a job; `job` is empty while a session has not named
// one. As all that JobLoop calls: by one thread at a time, from within it; must not block.
using JobLog = std::function<void(std::string_view job, std::string_view text)>;

// What is open now. Called whenever it has changed; must not block.
struct JobLoopLoad {
  std::size_t sessions = 0;
  std::size_t jobs = 0;        // that are not over
  std::size_t jobs_begun = 0;  // since the start
  // Agents of jobs that are over, which have yet to hear of it: as far as is known, and while there
  // are no sessions and no other jobs.
  std::size_t awaited = 0;
  bool operator==(const JobLoopLoad&) const = default;
};
using LoadObserver = std::function<void(const JobLoopLoad&)>;

// Takes the history of the jobs, event by event. `owner` may see it. Must not block.
using EventSink = std::function<void(std::string_view job, std::string_view owner,
                                     std::uint32_t requeue_number, const JobEvent& event)>;

struct JobLoopOptions {
  JobMachineOptions machine{};
  JobLog log;
  LoadObserver load{};     // may be empty
  EventSink events{};      // may be empty
  Store* store = nullptr;  // nullptr: in memory. Not owned; outlives the loop.
  // Not null: the rendezvous is one of several, and stands by until Lead. Not owned; outlives the
  // loop.
  const Validity* validity = nullptr;
  // The Store has lost the right to write. Called once; must not block. May be empty.
  std::function<void()> lost_right{};
  std::size_t max_jobs = 10'000;          // that are not over
  std::size_t max_jobs_of_owner = 1'000;  // the same, where callers show who they are
  // Random, of this process: what the secrets of generations are made from. Empty: there are none.
  // A job whose agents are not asked who they are has none either.
  std::string secret_key{};
  Duration time_to_join = wire::kMaxTimeToJoin;     // a session that says nothing is ended then
  Duration portion = std::chrono::milliseconds(1);  // of sending
  Duration slow_commit = std::chrono::seconds(5);   // longer, and the disk of the store hangs
  EndedJobs::Limits ended{};
  // Of the log files of workers that generations ended for, in all jobs; 0: none is kept.
  std::size_t kept_log_bytes = 32 << 20;
};

class JobLoop final {
 public:
  // Takes up what an earlier process has recorded, and starts the thread. One of several is given
  // that by Lead.
  explicit JobLoop(JobLoopOptions options, const std::vector<RecordedJob>& recorded = {});
  // Shuts down.
  ~JobLoop();
  JobLoop(const JobLoop&) = delete;
  JobLoop& operator=(const JobLoop&) = delete;

  // Events of a stream, from any thread that holds nothing which the streams need: it may have to
  // handle the event itself. The loop shares the ownership of `stream` from OnOpen until it has
  // closed it. For each stream: one OnOpen, then an OnMessage for
  // each RequestMessage until one OnEnd. After Shutdown a new stream is closed by OnOpen itself.
  // `waits`: a rendezvous that stands by is to keep it until it leads; any other stream it closes.
  void OnOpen(std::shared_ptr<AgentStream> stream, bool waits = false);
  void OnMessage(std::shared_ptr<AgentStream> stream, Header header, AgentMessage message);
  // `why`: OK when the agent closed its half or is gone, else what is wrong with it.
  void OnEnd(std::shared_ptr<AgentStream> stream, absl::Status why);

  // From any thread: the agent was killed, and no process of it is left. Ignored when there is no
  // such job or agent. `done` is called once, from within the loop, and must not block; with
  // PermissionDenied if the job is not `principal`'s, with Unavailable as operators are.
  void OnAgentGone(Header header, std::string principal, std::function<void(absl::Status)> done);

  // For operators, from any thread. `done` is called once, from within the loop, and must not
  // block; with Unavailable, or with nothing, where the loop stands by, must not speak now, or has
  // lost the right to write, and after Shutdown at once.
  //
  // Whether agents are answered. Unavailable, for people: the rendezvous ends, another process has
  // taken its jobs, or the disk of the durable state does not take a change.
  void CheckReady(std::function<void(absl::Status)> done);
  //
  // The jobs whose owner is `owner`, or all of them where that is empty; of one name only, unless
  // `name` is empty.
  void GetStatus(std::string owner, std::string name,
                 std::function<void(absl::StatusOr<std::vector<JobStatus>>)> done);
  // The same for all jobs, without their nodes: cheap enough to be asked for each second.
  struct Summary {
    JobStatus job;
    int nodes = 0;  // that there are
  };
  void GetSummaries(std::string owner,
                    std::function<void(absl::StatusOr<std::vector<Summary>>)> done);
  // The same of all jobs of the owner, with what the loop itself has counted.
  struct Counted {
    std::size_t jobs_begun = 0;          // since the start
    std::int64_t received = 0;           // messages of agents
    std::int64_t sent = 0;               // messages to agents, those to nobody not counted
    std::optional<Histogram> commits{};  // of the durable state; nullopt: there is none
  };
  void GetMeasured(std::string owner,
                   std::function<void(std::vector<JobStatus>, const Counted&)> done);
  // Whether operators are answered now; for what does not come from the loop.
  void MayAnswer(std::function<void(absl::Status)> done);
  // The answer is a sentence for the operator. Errors: NotFound, FailedPrecondition.
  using AnswerCallback = std::function<void(absl::StatusOr<std::string>)>;
  void StopJob(std::string owner, std::string name, bool save, AnswerCallback done);
  // `name` may be empty: then the node is drained from every job that it is in.
  void DrainNode(std::string owner, std::string name, std::string host, AnswerCallback done);

  // Where the ranks of a job are in their code.
  struct Stacks {
    EncodedStackTree tree;
    std::vector<std::string> missing;  // hosts whose agents did not answer in time
  };
  using StacksCallback = std::function<void(absl::StatusOr<Stacks>)>;
  void GetStacks(std::string owner, std::string name, StacksCallback done);

  // The workers' log files, as log_request.h says. From any thread; they never block. `id` is a new
  // one, of NewLogReadId. The reader's OnEnd may come before ReadLogs has returned: NotFound where
  // the owner has no such job; InvalidArgument and FailedPrecondition: it cannot be read, and why;
  // ResourceExhausted: too many read at once; Unavailable: the rendezvous ends.
  LogReadId NewLogReadId() { return logs_.NewId(); }
  void ReadLogs(LogReadId id, std::string owner, LogRequest request,
                std::shared_ptr<LogReader> reader);
  // So many bytes more of what OnText has brought were passed on.
  void AcknowledgeLogs(LogReadId id, std::size_t bytes);
  // The reader is called a few times more at most, and not with OnEnd.
  void CancelLogs(LogReadId id);

  // ---- one of several: job_loop_several.cc. From any thread; they return at once. ----

  // Takes up what the leader before has recorded, and takes sessions from now on. Once. No lease
  // ends before `leases_from` + the job's lease. Every message to an agent carries the term.
  void Lead(const Term& term, TimePoint leases_from, std::vector<RecordedJob> recorded);
  void ChangeTerm(const Term& term);
  // Validity holds again: what was kept back is sent.
  void OnValidity();
  // Where another one leads, "HOST:PORT", for those that are refused; "": not known.
  void SetLeader(std::string endpoint);

  // Closed while many messages are written; who hears that a write is done passes it.
  CompletionBarrier& completions() { return completions_; }

  // Handles what is queued, closes every stream with Unavailable, and ends the thread. What was
  // sent before is still written. Idempotent; not from within the loop.
  void Shutdown();

 private:
  struct Opened {
    std::shared_ptr<AgentStream> stream;
    bool waits;
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
  struct Written {
    OutputCommit::Batch batch;
    Store::Outcome outcome;
  };
  // Something that somebody asked for; he is told where there is no answer, and why.
  using RefuseCallback = std::function<void(const absl::Status& why)>;
  struct Asked {
    std::function<void()> run;
    RefuseCallback refuse;  // empty: it is run in any case
  };
  // What operators have asked, and wait for, by ticket.
  struct Tickets {
    std::uint64_t last_ticket = 0;
    std::unordered_map<std::uint64_t, AnswerCallback> answers{};
    std::unordered_map<std::uint64_t, StacksCallback> stacks{};
  };
  // The StackWorker has done something for this job.
  struct OfStacks {
    std::string job;
    JobMachine::Event event;
  };
  using Event = std::variant<Opened, Message, Ended, Written, Asked, OfStacks>;
  using Executor = SerialExecutor<Event>;
  using Session = SessionRegistry::Session;

  // The executor's calls: below them, everything is of the thread that handles.
  class Handler final : public Executor::Handler, public Outboxes::Actor, public LogRelay::Actor {
   public:
    explicit Handler(JobLoop* loop) : loop_(loop) {}
    TimePoint Handle(std::vector<Event>& events, TimePoint now) override;
    void HandleLast(std::vector<Event>& events, TimePoint now) override;
    void Send(ServedJob& job, const Header& header, const RendezvousMessage& message) override {
      loop_->Send(job, header, message);
    }
    void Perform(ServedJob& job, JobMachine::Action& action) override {
      loop_->Perform(job, action);
    }
    bool Order(ServedJob& job, AgentId agent_id, const LogOrder& order) override {
      return loop_->Order(job, agent_id, order);
    }

   private:
    JobLoop* const loop_;
  };

  static absl::Status ShutDownStatus();
  // Runs it, or refuses it.
  void Ask(std::function<void()> run, RefuseCallback refuse);
  // Runs it, but after the end.
  void Tell(std::function<void()> run) { executor_.Post(Asked{std::move(run), {}}); }

  void TakeUp(const RecordedJob& recorded);
  void HandleAll(std::vector<Event>& events, TimePoint now);
  void Handle(Opened& event);
  void Handle(Message& event);
  void Handle(Ended& event);
  void Handle(Written& event);
  void Handle(Asked& event);
  void Handle(OfStacks& event);
  // Takes the session into its job, which begins if there is none, on its first message. False, and
  // the session is closed, when it cannot.
  bool Admit(Session& session, const Header& header, const Join& join);
  // Nothing where one more job of this owner may begin; else why not, with its counter.
  std::optional<std::pair<const char*, absl::Status>> WhyNoMoreJobs(const std::string& owner) const;
  JobPtr BeginJob(const std::string& name, const Session& session, std::uint32_t requeue_number);
  // Ends a session for what its agent sent.
  void Refuse(const std::shared_ptr<AgentStream>& stream, const char* counter, absl::Status why);
  // Ends the sessions whose agents the JobMachine has refused: their agents have no more to say.
  void CloseRefused();
  void LoseRight();
  // Ends all that goes on.
  void EndAll(const absl::Status& why);

  // What it is time for.
  void Tick();
  TimePoint NextDeadline() const;
  void ReportLoad();

  void Step(const JobPtr& job, const JobMachine::Event& event);
  void Send(ServedJob& job, const Header& header, const RendezvousMessage& message);
  void SendUnderTerm(AgentStream& stream, const Header& header, const RendezvousMessage& message);
  void Perform(ServedJob& job, JobMachine::Action& action);
  bool Order(ServedJob& job, AgentId agent_id, const LogOrder& order);
  void Answer(JobMachine::Answer& answer);
  void SetDeadline(ServedJob& job, std::optional<TimePoint> deadline);
  void Forget(const std::string& name);
  // Whether the job is the one of its name: it may have been used again.
  bool IsCurrent(const ServedJob& job) const;
  // What the workers of this generation share; "" where there is none.
  std::string SecretOf(const ServedJob& job, const Header& header) const;
  JobPtr FindOwned(const std::string& owner, const std::string& name) const;
  // Of this owner, or all where that is empty; of one name only, unless `name` is empty.
  std::vector<JobStatus> StatusOf(const std::string& owner, const std::string& name) const;

  JobLoopOptions options_;  // but for machine.leases_from, which Lead sets, as they were given
  CompletionBarrier completions_;

  // Of the thread that handles.
  TimePoint now_;     // when the events in progress were taken out of the queue
  JobLoopLoad load_;  // as it was told last
  Counted counted_;   // `commits` is OutputCommit's
  LiveJobs live_jobs_;
  std::map<std::string, JobPtr> jobs_;
  std::set<std::pair<TimePoint, ServedJob*>> deadlines_;  // of jobs_
  EndedJobs ended_;
  SessionRegistry sessions_;
  OutputCommit output_;
  Handler handler_{this};
  Outboxes outboxes_{&handler_, &completions_, options_.validity};
  std::vector<std::pair<std::shared_ptr<AgentStream>, std::string>> refused_;  // to be closed; why
  Tickets asked_;
  LogRelay logs_{&handler_, options_.kept_log_bytes};
  Reign reign_{options_.validity};

  StackWorker stack_worker_;

  Executor executor_{&handler_};  // last: its thread uses everything above
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_JOB_LOOP_H_
