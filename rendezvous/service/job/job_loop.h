// JobLoop: owns the JobMachine (machine/job_machine.h: it decides for one job) of every job, passes
// events to it, and sends its messages.
//
// Its parts: SerialExecutor decides which thread handles an event. SessionRegistry knows the open
// sessions. OutputCommit holds back a JobMachine's actions until the record that they depend on is
// durable. Outboxes send to thousands of agents in portions. EndedJobs decides how long a finished
// job is remembered. LogRelay carries log files to their readers. StackWorker merges and judges
// the stacks of all jobs on its own thread, because this takes long in large jobs.
//
// The thread that handles an event also sends the JobMachine's messages. Usually this is the thread
// of the agent's call, so that no other thread has to wake. A Join and a deadline wake the
// executor's own thread; Joins do so because many come at once. Another thread may handle them
// first: a thread that handles its own event also handles all queued events, and what is due. Every
// event that was queued before the time of a Tick is handled before that Tick. So even if the loop
// is busy, an agent whose message is queued does not count as silent. A message that was not yet
// read from the network is not queued: its agent can still count as silent.
//
// More than 64 messages at once are sent in portions of a millisecond. Between two portions the
// loop handles other events. A job's own messages keep their order, but a HeartbeatAck goes first.
//
// A job begins with the first Join that has its name. If a job has finished and a new agent joins
// it, a new job of that name usually begins (JobMachine::BeginsAnother has the exception). The old
// job's streams stay open until their agents close them.
//
// If the Store reports that another process now has the right to write, the loop stops
// acknowledging: every session ends with Unavailable, new ones are refused, and
// JobLoopOptions::lost_right is called.
//
// One of several rendezvous (JobLoopOptions::validity) has no jobs until it leads. Before that, it
// takes only sessions that wait (OnOpen). Its validity is the time until which it may act as the
// leader (validity.h). While the validity does not hold, HeartbeatAcks are dropped, and all other
// actions, except the write of a record, wait in their order. The messages about log files wait,
// too: LogOrder (to an agent) and LogPiece (from an agent).
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_JOB_LOOP_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_JOB_LOOP_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
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

// Takes log messages about a job. `job` is empty if the message is about no job, or about a session
// that has not named its job yet. All callbacks of JobLoop are called by one thread at a time, and
// must not block. Usually the loop calls them; the constructor calls them for recorded jobs, and
// after Shutdown() each function calls its own `done`.
using JobLog = std::function<void(std::string_view job, std::string_view text)>;

// The load of the rendezvous. LoadObserver is called whenever the load has changed; it must not
// block.
struct JobLoopLoad {
  std::size_t sessions = 0;
  std::size_t jobs = 0;        // unfinished jobs
  std::size_t jobs_begun = 0;  // since the start, with jobs taken up from the store
  // Agents that, as far as known, do not know yet that their job has ended. Counted only while
  // there are no sessions and no unfinished jobs.
  std::size_t awaited = 0;
  bool operator==(const JobLoopLoad&) const = default;
};
using LoadObserver = std::function<void(const JobLoopLoad&)>;

// Takes the jobs' events, one by one. `owner`: the principal that owns the job (auth/principal.h
// says who may see it). Must not block.
using EventSink = std::function<void(std::string_view job, std::string_view owner,
                                     std::uint32_t requeue_number, const JobEvent& event)>;

struct JobLoopOptions {
  JobMachineOptions machine{};
  JobLog log;
  LoadObserver load{};     // may be empty
  EventSink events{};      // may be empty
  Store* store = nullptr;  // nullptr: in memory. Not owned; outlives the loop.
  // Not null: the rendezvous is one of several, and does not lead before Lead is called. Not owned;
  // outlives the loop.
  const Validity* validity = nullptr;
  // The Store has lost the right to write. Called once; must not block. May be empty.
  std::function<void()> lost_right{};
  std::size_t max_jobs = 10'000;  // unfinished jobs
  // Unfinished jobs of one owner, if callers are authenticated.
  std::size_t max_jobs_of_owner = 1'000;
  // The key from which the generations' secrets are derived. Empty: no secrets. A job without an
  // owner has no secrets either.
  std::string secret_key{};
  // A session without a Join is ended after this time. For a session that waits (OnOpen), the time
  // begins with Lead.
  Duration time_to_join = wire::kMaxTimeToJoin;
  Duration portion = std::chrono::milliseconds(1);  // of sending, before other events are handled
  // A longer commit means that the store's disk does not answer.
  Duration slow_commit = std::chrono::seconds(5);
  EndedJobs::Limits ended{};
  // Memory for the last parts of failed workers' log files, in all jobs; 0: no part is kept.
  std::size_t kept_log_bytes = 32 << 20;
};

class JobLoop final {
 public:
  // Continues the jobs that an earlier process recorded, and starts the thread. One of several gets
  // the recorded jobs by Lead instead.
  explicit JobLoop(JobLoopOptions options, const std::vector<RecordedJob>& recorded = {});
  // Shuts down.
  ~JobLoop();
  JobLoop(const JobLoop&) = delete;
  JobLoop& operator=(const JobLoop&) = delete;

  // Events of a stream, from any thread. The calling thread may have to handle the event, so it
  // must hold no lock that a stream needs. The loop shares the ownership of `stream` from OnOpen
  // until it has closed the stream. For each stream: one OnOpen, then OnMessages, then at most one
  // OnEnd (it may be missing if the loop has closed the stream). A stream may pass on a few
  // messages before RequestMessage asks for them (agent_stream.h). The stream of a client in this
  // process does not wait for requests at all. After Shutdown, OnOpen itself closes a new stream.
  // `waits`: the agent waits until this rendezvous leads. While the rendezvous stands by (does not
  // lead yet), it closes a stream with waits=false.
  void OnOpen(std::shared_ptr<AgentStream> stream, bool waits = false);
  void OnMessage(std::shared_ptr<AgentStream> stream, Header header, AgentMessage message);
  // `why`: OK if the agent closed its half or is gone, else the stream's error.
  void OnEnd(std::shared_ptr<AgentStream> stream, absl::Status why);

  // From any thread: the agent was killed, and none of its processes is left. Ignored if there is
  // no such job or agent. `done` is called as for operators (below). It gets PermissionDenied if
  // the job is not `principal`'s, and Unavailable in the same cases as operators.
  void OnAgentGone(Header header, std::string principal, std::function<void(absl::Status)> done);

  // For operators, from any thread. `done` is called once, from within the loop (after Shutdown: by
  // the caller), and must not block. It gets Unavailable, or an empty result, in four cases: the
  // loop stands by; its validity does not hold; it has lost the right to write; Shutdown was
  // called.
  //
  // OK if agents are answered. Unavailable also if the store has not made a change of the job
  // records durable for slow_commit. The text is for people.
  void CheckReady(std::function<void(absl::Status)> done);
  // The status of the jobs of `owner`; if `owner` is empty, of all jobs. If `name` is not empty,
  // only of the job with this name.
  void GetStatus(std::string owner, std::string name,
                 std::function<void(absl::StatusOr<std::vector<JobStatus>>)> done);
  // The same for all names, but without the nodes, so it can be called every second.
  struct Summary {
    JobStatus job;
    int nodes = 0;  // number of nodes
  };
  void GetSummaries(std::string owner,
                    std::function<void(absl::StatusOr<std::vector<Summary>>)> done);
  // All jobs of the owner, and the loop's own counters.
  struct Counted {
    std::size_t jobs_begun = 0;  // since the start, with jobs taken up from the store
    std::int64_t received = 0;   // messages of agents
    std::int64_t sent = 0;       // messages to agents that have a session; LogOrders do not count
    std::optional<Histogram> commits{};  // of the job records; nullopt: only in memory
  };
  // Jobs are copied one at a time, so events of agents wait for at most one copy.
  using MeasuredCallback = std::function<void(std::vector<JobStatus>, const Counted&)>;
  void GetMeasured(std::string owner, MeasuredCallback done);
  // Call it before an answer that does not come from the loop. OK: the answer may be given now.
  void MayAnswer(std::function<void(absl::Status)> done);
  // The answer is a sentence for the operator. Errors: NotFound, FailedPrecondition.
  using AnswerCallback = std::function<void(absl::StatusOr<std::string>)>;
  void StopJob(std::string owner, std::string name, bool save, AnswerCallback done);
  // `name` empty: the node is drained from every job that has it.
  void DrainNode(std::string owner, std::string name, std::string host, AnswerCallback done);

  // The stacks of all ranks of a job.
  struct Stacks {
    EncodedStackTree tree;
    std::vector<std::string>
        missing;  // hosts without an answer in time, or with one that cannot be used
  };
  using StacksCallback = std::function<void(absl::StatusOr<Stacks>)>;
  void GetStacks(std::string owner, std::string name, StacksCallback done);

  // The workers' log files (log_request.h). From any thread; never blocks. `id`: from NewLogReadId.
  // The reader's OnEnd may come before ReadLogs has returned. Errors in OnEnd: NotFound, the owner
  // has no such job; InvalidArgument and FailedPrecondition, the logs cannot be read, with the
  // reason; ResourceExhausted, too many readers; Unavailable, in the same cases as for operators.
  // But once the reading has begun, it only waits while the validity does not hold.
  LogReadId NewLogReadId() { return logs_.NewId(); }
  void ReadLogs(LogReadId id, std::string owner, LogRequest request,
                std::shared_ptr<LogReader> reader);
  // The reader has passed on this many more bytes of OnText.
  void AcknowledgeLogs(LogReadId id, std::size_t bytes);
  // After this call the reader gets at most a few more calls. OnEnd may be one of them.
  void CancelLogs(LogReadId id);

  // ---- one of several: job_loop_several.cc. From any thread; they return at once. ----

  struct Takeover {
    Term term;              // the number of this leadership; every message to an agent carries it
    TimePoint leases_from;  // no lease ends before this + the job's lease
    // Agents may run jobs that have no record, because etcd is new or was restored. No generation
    // forms before `leases_from` + the job's lease.
    bool restored = false;
  };
  // Continues the jobs that the previous leader recorded, and takes sessions from now on. Once.
  void Lead(const Takeover& takeover, std::vector<RecordedJob> recorded);
  void ChangeTerm(const Term& term);
  // Validity holds again: sends what was held back.
  void OnValidity();
  // The other leader's "HOST:PORT", for refused callers; "": not known.
  void SetLeader(std::string endpoint);

  // While the loop writes many messages, gRPC's threads wait at this barrier with their reports of
  // finished writes. So a thread wakes once, not once for each message.
  CompletionBarrier& completions() { return completions_; }

  // Handles the queued events, closes every stream with Unavailable, and ends the thread. Messages
  // sent before are still written. Idempotent; not from within the loop.
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
  // A question or an order. If it cannot be run, `refuse` is called with the reason.
  using RefuseCallback = std::function<void(const absl::Status& why)>;
  struct Asked {
    std::function<void()> run;
    RefuseCallback refuse;  // empty: always run
  };
  // Callbacks of operators who wait for an answer, by ticket.
  struct Tickets {
    std::uint64_t last_ticket = 0;
    std::unordered_map<std::uint64_t, AnswerCallback> answers{};
    std::unordered_map<std::uint64_t, StacksCallback> stacks{};
  };
  // A result of the StackWorker for this job.
  struct OfStacks {
    std::string job;
    JobMachine::Event event;
  };
  using Event = std::variant<Opened, Message, Ended, Written, Asked, OfStacks>;
  using Executor = SerialExecutor<Event>;
  using Session = SessionRegistry::Session;

  // Receives the executor's calls. All members that it uses belong to the handling thread.
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

    // A record was written while these events were handled.
    void NotePersist() { persisted_ = true; }

   private:
    JobLoop* const loop_;
    bool persisted_ = false;
  };

  static absl::Status ShutDownStatus();
  void Ask(std::function<void()> run, RefuseCallback refuse);
  // Runs `run` on the handling thread; not after Shutdown.
  void Tell(std::function<void()> run) { executor_.Post(Asked{std::move(run), {}}); }

  void TakeUp(const RecordedJob& recorded);
  static bool IsJoin(const Event& event);
  void HandleAll(std::vector<Event>& events, TimePoint now);
  void Handle(Opened& event);
  void Handle(Message& event);
  void Handle(Ended& event);
  void Handle(Written& event);
  void Handle(Asked& event);
  void Handle(OfStacks& event);
  // Assigns a session to its job when the session's first message comes. Begins the job if there is
  // none. False: the session was refused and closed.
  bool Admit(Session& session, const Header& header, const Join& join);
  // Why this owner cannot begin one more job: the refusal and its counter. nullopt: it can.
  std::optional<std::pair<const char*, absl::Status>> WhyNoMoreJobs(const std::string& owner) const;
  JobPtr BeginJob(const std::string& name, const Session& session, std::uint32_t requeue_number);
  // Ends a session because of a message of its agent.
  void Refuse(const std::shared_ptr<AgentStream>& stream, const char* counter, absl::Status why);
  // Ends the sessions of agents that JobMachines have refused.
  void CloseRefused();
  void LoseRight();
  // Ends all sessions, questions and readings.
  void EndAll(const absl::Status& why);

  // Handles what is due now.
  void Tick();
  TimePoint NextDeadline() const;
  void ReportLoad();

  // Runs `run` once this rendezvous is allowed to send. For readings of logs, which do not use the
  // outboxes.
  void WhenValid(std::function<void()> run);
  void RunHeld();

  void Step(const JobPtr& job, const JobMachine::Event& event);
  void Send(ServedJob& job, const Header& header, const RendezvousMessage& message);
  void SendUnderTerm(AgentStream& stream, const Header& header, const RendezvousMessage& message);
  void Perform(ServedJob& job, JobMachine::Action& action);
  bool Order(ServedJob& job, AgentId agent_id, const LogOrder& order);
  void Answer(JobMachine::Answer& answer);
  void SetDeadline(ServedJob& job, std::optional<TimePoint> deadline);
  void Forget(const std::string& name);
  // False: a newer job has taken this job's name.
  bool IsCurrent(const ServedJob& job) const;
  // The secret that this generation's workers share; "": none.
  std::string SecretOf(const ServedJob& job, const Header& header, RunId run_id) const;
  JobPtr FindOwned(const std::string& owner, const std::string& name) const;
  // As for GetStatus.
  std::vector<JobStatus> StatusOf(const std::string& owner, const std::string& name) const;
  // A GetMeasured in progress, and its next job.
  struct Measured {
    std::string owner;
    MeasuredCallback done;
    std::vector<JobStatus> jobs{};
  };
  void MeasureNext(const std::shared_ptr<Measured>& measured);

  JobLoopOptions options_;  // constant, except what Lead sets in `machine`
  CompletionBarrier completions_;

  // Used by the handling thread only.
  TimePoint now_;     // when the current events were taken from the queue
  JobLoopLoad load_;  // as last reported
  Counted counted_;   // without `commits`, which OutputCommit has
  LiveJobs live_jobs_;
  std::map<std::string, JobPtr> jobs_;
  std::set<std::pair<TimePoint, ServedJob*>> deadlines_;  // deadlines of jobs_
  EndedJobs ended_;
  SessionRegistry sessions_;
  OutputCommit output_;
  Handler handler_{this};
  Outboxes outboxes_{&handler_, &completions_, options_.validity};
  // Streams of refused agents, to be closed, with the reason.
  std::vector<std::pair<std::shared_ptr<AgentStream>, std::string>> refused_;
  Tickets asked_;
  LogRelay logs_{&handler_, options_.kept_log_bytes};
  std::deque<std::function<void()>> held_;  // by WhenValid
  Reign reign_{options_.validity};  // whether the loop serves jobs now, and under which term

  StackWorker stack_worker_;

  Executor executor_{&handler_};  // last: its thread uses everything above
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_JOB_LOOP_H_
