#include "rendezvous/service/job/job_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/principal.h"
#include "rendezvous/auth/refusal_counters.h"
#include "rendezvous/service/low_priority.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace {

// While many agents join, the executor's thread handles several Joins each time it wakes. If it
// preempted the thread that posts them, it would handle one, and joining would take a tenth longer.
// The thread is patient only while it sleeps, so that the threads that it starts are not.
class Patience {
 public:
  void Allow() { allowed_ = true; }
  void Begin() { patient_ = allowed_ && SetPreempts(false); }
  void End() {
    if (std::exchange(patient_, false)) SetPreempts(true);
  }

 private:
  bool allowed_ = false;
  bool patient_ = false;
};

thread_local Patience patience;  // allowed only on the executor's thread

absl::Status OthersJob(const std::string& job) {
  return absl::PermissionDeniedError(absl::StrCat(NameOfJob(job), " belongs to somebody else"));
}

}  // namespace

JobLoop::JobLoop(JobLoopOptions options, const std::vector<RecordedJob>& recorded)
    : options_(std::move(options)),
      now_(std::chrono::steady_clock::now()),
      ended_(options_.ended),
      output_(options_.store,
              [this](OutputCommit::Batch batch, Store::Outcome outcome) {
                executor_.Post(Written{batch, outcome});
              }),
      stack_worker_([this](const std::string& job, JobMachine::Event event) {
        executor_.Post(OfStacks{job, std::move(event)});
      }) {
  for (const RecordedJob& job : recorded) TakeUp(job);
  executor_.Start(NextDeadline(), [] { patience.Allow(); });
}

JobLoop::~JobLoop() {
  Shutdown();
  stack_worker_.Wait();  // its thread uses the executor, which is destroyed first
}

// ---- from other threads ----

void JobLoop::OnOpen(std::shared_ptr<AgentStream> stream, bool waits) {
  // Nothing happens until the first message or the deadline for it, so no thread is woken. But a
  // standby must close a stream with waits=false at once, so the caller handles the event.
  const bool may_stand_by = options_.validity != nullptr;
  if (!executor_.Post(Opened{stream, waits},
                      may_stand_by ? Executor::By::kCaller : Executor::By::kWhoeverIsNext)) {
    stream->Close(ShutDownStatus());
  }
}

void JobLoop::OnMessage(std::shared_ptr<AgentStream> stream, Header header, AgentMessage message) {
  // Many agents join at once: while the executor's thread handles a Join, the caller reads the next
  // message.
  const bool joins = std::holds_alternative<Join>(message);
  executor_.Post(Message{std::move(stream), std::move(header), std::move(message)},
                 joins ? Executor::By::kThread : Executor::By::kCaller);
}

void JobLoop::OnEnd(std::shared_ptr<AgentStream> stream, absl::Status why) {
  executor_.Post(Ended{std::move(stream), std::move(why)}, Executor::By::kCaller);
}

void JobLoop::OnAgentGone(Header header, std::string principal,
                          std::function<void(absl::Status)> done) {
  const auto run = [this, header = std::move(header), principal = std::move(principal), done] {
    const auto found = jobs_.find(header.job);
    if (found != jobs_.end() && !auth::MayAct(principal, found->second->owner)) {
      done(OthersJob(header.job));
      return;
    }
    if (found != jobs_.end()) Step(JobPtr(found->second), JobMachine::AgentGone{header.agent_id});
    done(absl::OkStatus());
  };
  Ask(run, done);
}

void JobLoop::Shutdown() { executor_.Shutdown(); }

// ---- the thread that handles ----

bool JobLoop::IsJoin(const Event& event) {
  const auto* const received = std::get_if<Message>(&event);
  return received != nullptr && std::holds_alternative<Join>(received->message);
}

TimePoint JobLoop::Handler::Handle(std::vector<Event>& events, TimePoint now) {
  const bool joins = std::any_of(events.begin(), events.end(), IsJoin);
  persisted_ = false;
  patience.End();
  loop_->HandleAll(events, now);
  loop_->RunHeld();
  loop_->Tick();
  loop_->outboxes_.WorkOff(loop_->options_.portion);
  loop_->CloseRefused();
  loop_->ReportLoad();
  if (joins && !persisted_) patience.Begin();
  return loop_->NextDeadline();
}

void JobLoop::Handler::HandleLast(std::vector<Event>& events, TimePoint now) {
  loop_->HandleAll(events, now);
  while (loop_->outboxes_.ready()) loop_->outboxes_.WorkOff(loop_->options_.portion);
  loop_->EndAll(ShutDownStatus());
}

void JobLoop::HandleAll(std::vector<Event>& events, TimePoint now) {
  now_ = now;
  for (Event& event : events) {
    std::visit([this](auto& alternative) { Handle(alternative); }, event);
    CloseRefused();
  }
}

void JobLoop::TakeUp(const RecordedJob& recorded) {
  const auto job = std::make_shared<ServedJob>(recorded, now_, options_.machine);
  jobs_[recorded.name] = job;
  logs_.OnTakenUp(*job, recorded.record);
  if (job->machine.finished()) {
    ended_.Add(job, now_);
    return;
  }
  live_jobs_.Add(*job);
  ++counted_.jobs_begun;
  SetDeadline(*job, job->machine.NextDeadline());
  if (options_.events) {
    JobEvent event{.kind = JobEvent::Kind::kRecovered};
    event.generation = recorded.record.generation;
    event.nodes = static_cast<int>(recorded.record.members.size());
    options_.events(job->name, job->owner, recorded.record.requeue_number, event);
  }
}

void JobLoop::Handle(Opened& event) {
  const bool waits = event.waits && reign_.stands_by();
  if (!reign_.serves() && !waits) return event.stream->Close(reign_.WhyClosed());
  AgentStream* const stream = event.stream.get();
  std::optional<TimePoint> join_by;
  if (!waits) join_by = now_ + options_.time_to_join;
  sessions_.Add(std::move(event.stream), join_by);
  stream->RequestMessage();
}

void JobLoop::Handle(Message& event) {
  Session* const session = sessions_.Find(event.stream.get());
  if (session == nullptr) return;  // the loop closed the session meanwhile
  ++counted_.received;
  if (reign_.stands_by()) {
    Refuse(event.stream, refusal::kMalformed,
           absl::InvalidArgumentError(
               "a waiting session must send nothing before this rendezvous leads"));
    return;
  }
  if (session->job == nullptr) {
    if (!std::holds_alternative<Join>(event.message)) {
      Refuse(event.stream, refusal::kMalformed,
             absl::InvalidArgumentError("the first message of a session must be a Join"));
      return;
    }
    if (!Admit(*session, event.header, std::get<Join>(event.message))) return;
  }
  if (event.header.job != session->job->name || event.header.agent_id != session->agent_id) {
    Refuse(event.stream, refusal::kMalformed,
           absl::InvalidArgumentError("Header.job and Header.incarnation must be the same in all "
                                      "messages of a session"));
    return;
  }
  if (auto* const piece = std::get_if<LogPiece>(&event.message)) {
    WhenValid(
        [this, from = session->agent_id, piece = std::make_shared<LogPiece>(std::move(*piece))] {
          logs_.OnPiece(from, std::move(*piece));
        });
    return event.stream->RequestMessage();
  }
  if (const auto* const join = std::get_if<Join>(&event.message)) {
    logs_.OnJoin(*session->job, session->agent_id, *join);
  }
  Step(session->job, JobMachine::Received{std::move(event.header), std::move(event.message)});
  event.stream->RequestMessage();
}

bool JobLoop::Admit(Session& session, const Header& header, const Join& join) {
  JobPtr job;
  if (const auto found = jobs_.find(header.job); found != jobs_.end()) job = found->second;
  // Also for a finished job: its name belongs to its owner until the job is forgotten.
  if (job != nullptr && !auth::MayAct(session.stream->Principal(), job->owner)) {
    Refuse(session.stream, refusal::kOtherOwner, OthersJob(header.job));
    return false;
  }
  if (job != nullptr && job->machine.BeginsAnother(header, join)) {
    Forget(header.job);  // the new job takes its name
    job = nullptr;
  }
  const auto most = static_cast<std::size_t>(options_.machine.max_agents);
  if (job != nullptr && !job->machine.Knows(header.agent_id) &&
      static_cast<std::size_t>(job->machine.agent_count()) >= most) {
    Refuse(session.stream, refusal::kTooManyAgents,
           absl::ResourceExhaustedError(
               absl::StrCat(NameOfJob(header.job), " has ", most, " agents already")));
    return false;
  }
  if (job == nullptr) job = BeginJob(header.job, session, header.requeue_number);
  if (job == nullptr) return false;
  AgentStream* const older = sessions_.Assign(session, job, header.agent_id);
  if (older != nullptr) {
    sessions_.Close(older, absl::AbortedError("the same agent opened a newer session"));
    logs_.OnSessionLost(*job, header.agent_id);
  }
  return true;
}

std::optional<std::pair<const char*, absl::Status>> JobLoop::WhyNoMoreJobs(
    const std::string& owner) const {
  if (live_jobs_.all() >= options_.max_jobs) {
    return std::make_pair(refusal::kTooManyJobs,
                          absl::ResourceExhaustedError(absl::StrCat(
                              "the rendezvous has ", live_jobs_.all(),
                              " jobs, and no more are possible: use another rendezvous")));
  }
  if (!owner.empty() && live_jobs_.Of(owner) >= options_.max_jobs_of_owner) {
    return std::make_pair(refusal::kTooManyJobsOfOwner,
                          absl::ResourceExhaustedError(absl::StrCat(
                              "the rendezvous has ", live_jobs_.Of(owner), " jobs of ", owner,
                              ", and no more are possible until one of them is over")));
  }
  return std::nullopt;
}

JobPtr JobLoop::BeginJob(const std::string& name, const Session& session,
                         std::uint32_t requeue_number) {
  if (auto why = WhyNoMoreJobs(session.stream->Principal())) {
    Refuse(session.stream, why->first, std::move(why->second));
    return nullptr;
  }
  auto job = std::make_shared<ServedJob>(name, session.stream->Principal(), requeue_number,
                                         options_.machine);
  jobs_[name] = job;
  ++counted_.jobs_begun;
  live_jobs_.Add(*job);
  return job;
}

void JobLoop::Refuse(const std::shared_ptr<AgentStream>& stream, const char* counter,
                     absl::Status why) {
  stream->CountRefusal(counter, why);
  Ended end{stream, std::move(why)};
  Handle(end);
}

void JobLoop::CloseRefused() {
  while (!refused_.empty()) {
    const auto [stream, reason] = std::move(refused_.back());
    refused_.pop_back();
    if (sessions_.Find(stream.get()) == nullptr) continue;  // it was refused twice
    stream->CountRefusal(refusal::kNotInThisJob, absl::FailedPreconditionError(reason));
    Ended end{stream, absl::OkStatus()};  // the agent got the reason, and it is logged
    Handle(end);
  }
}

void JobLoop::Handle(Ended& event) {
  const Session* const session = sessions_.Find(event.stream.get());
  if (session == nullptr) return;
  const JobPtr job = session->job;
  const AgentId agent_id = session->agent_id;
  if (!event.why.ok()) {
    options_.log(
        job == nullptr ? "" : job->name,
        absl::StrCat("closed the session of ", event.stream->Peer(), ": ", event.why.message()));
  }
  sessions_.Close(event.stream.get(), event.why);
  if (job == nullptr) return;
  logs_.OnSessionLost(*job, agent_id);
  Step(job, JobMachine::StreamBroken{agent_id});
}

void JobLoop::Handle(Written& event) {
  if (event.outcome == Store::Outcome::kLostRight) return LoseRight();
  // The store retries; held actions stay held.
  if (event.outcome == Store::Outcome::kFailed) return;
  output_.SetDurable(event.batch);
  while (const JobPtr job = output_.NextReleased()) {
    std::size_t messages = 0;
    for (const auto& [batch, action] : job->held) messages += Outboxes::MessagesOf(action);
    const bool many = Outboxes::AreMany(messages);
    const CompletionBarrier::Burst burst(&completions_, many ? 0 : messages);
    while (auto action = output_.TakeReleased(*job)) outboxes_.Deliver(job, *action, many);
  }
}

void JobLoop::Handle(OfStacks& event) {
  const auto found = jobs_.find(event.job);
  if (found != jobs_.end() && !reign_.lost()) Step(JobPtr(found->second), event.event);
}

void JobLoop::EndAll(const absl::Status& why) {
  outboxes_.Clear();
  held_.clear();
  for (auto& [ticket, done] : std::exchange(asked_.answers, {})) done(why);
  for (auto& [ticket, done] : std::exchange(asked_.stacks, {})) done(why);
  logs_.EndAll(why);
  sessions_.CloseAll(why);
}

void JobLoop::Tick() {
  if (reign_.lost()) return;  // another rendezvous decides now
  while (const std::shared_ptr<AgentStream> stream = sessions_.FindSilent(now_)) {
    Refuse(stream, refusal::kNoJoin, absl::DeadlineExceededError("no Join came in time"));
  }
  auto next = deadlines_.begin();
  while (next != deadlines_.end() && next->first <= now_) {
    ServedJob* const due = (next++)->second;
    if (IsCurrent(*due)) {
      Step(JobPtr(jobs_.at(due->name)), JobMachine::Tick{});
    } else {
      SetDeadline(*due, std::nullopt);
    }
  }
  while (const JobPtr job = ended_.TakeSurplus(now_)) {
    if (IsCurrent(*job)) Forget(job->name);
  }
}

TimePoint JobLoop::NextDeadline() const {
  if (!reign_.serves()) return TimePoint::max();
  if (outboxes_.ready()) return now_;
  // A session that opens meanwhile must join by then.
  TimePoint next = now_ + options_.time_to_join;
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  next = std::min(next, ended_.NextDeadline().value_or(next));
  return std::min(next, sessions_.NextDeadline().value_or(next));
}

void JobLoop::ReportLoad() {
  const bool quiet = sessions_.size() == 0 && live_jobs_.all() == 0;
  const JobLoopLoad load{sessions_.size(), live_jobs_.all(), counted_.jobs_begun,
                         quiet ? ended_.AwaitedAgents() : 0};
  if (load != load_ && options_.load) options_.load(load);
  load_ = load;
}

void JobLoop::SetDeadline(ServedJob& job, std::optional<TimePoint> deadline) {
  if (job.deadline == deadline) return;
  if (job.deadline) deadlines_.erase({*job.deadline, &job});
  job.deadline = deadline;
  if (deadline) deadlines_.emplace(*deadline, &job);
}

// ---- a job ----

void JobLoop::Step(const JobPtr& job, const JobMachine::Event& event) {
  const bool was_finished = job->machine.finished();
  std::optional<OutputCommit::Batch> batch;  // the batch that later actions wait for
  std::vector<JobMachine::Action> actions = job->machine.Step(event, now_);
  std::size_t messages = 0;
  for (const JobMachine::Action& action : actions) messages += Outboxes::MessagesOf(action);
  const bool many = Outboxes::AreMany(messages);
  const CompletionBarrier::Burst burst(&completions_, many ? 0 : messages);
  for (JobMachine::Action& action : actions) {
    if (const auto* const persist = std::get_if<JobMachine::Persist>(&action)) {
      logs_.OnRecord(*job, *persist->record);
      handler_.NotePersist();
      batch = output_.Persist(*job, *persist->record);
    } else if (!output_.Hold(job, batch, action)) {
      outboxes_.Deliver(job, action, many);
    }
  }
  if (job->machine.finished() && !was_finished) {
    live_jobs_.Remove(*job);
    ended_.Add(job, now_);
  }
  SetDeadline(*job, job->machine.NextDeadline());
  if (!job->machine.begun() && job->streams.size() <= 1 && IsCurrent(*job)) {
    // The first Join was refused: the job never existed.
    jobs_.erase(job->name);
    live_jobs_.Remove(*job);
    --counted_.jobs_begun;
  }
}

void JobLoop::Send(ServedJob& job, const Header& header, const RendezvousMessage& message) {
  const auto stream = job.streams.find(header.agent_id.value);
  if (stream == job.streams.end()) return;
  ++counted_.sent;
  SendUnderTerm(*stream->second, header, message);
  if (const auto* const refused = std::get_if<Refused>(&message)) {
    refused_.emplace_back(sessions_.Find(stream->second)->stream, refused->reason);
  }
}

// Messages that an earlier term of the same reign held back are sent with the newest term.
void JobLoop::SendUnderTerm(AgentStream& stream, const Header& header,
                            const RendezvousMessage& message) {
  if (reign_.term().none()) return stream.Send(header, message);
  Header stamped = header;
  stamped.term = reign_.term();
  stream.Send(stamped, message);
}

bool JobLoop::Order(ServedJob& job, AgentId agent_id, const LogOrder& order) {
  const auto stream = job.streams.find(agent_id.value);
  if (stream == job.streams.end()) return false;
  if (!reign_.WhyNoAnswer().ok()) {
    WhenValid([this, name = job.name, agent_id, order] {
      const auto found = jobs_.find(name);
      if (found != jobs_.end()) Order(*found->second, agent_id, order);
    });
    return true;
  }
  SendUnderTerm(*stream->second,
                {job.name, job.machine.requeue_number(), job.machine.generation(), agent_id},
                order);
  return true;
}

void JobLoop::WhenValid(std::function<void()> run) {
  if (held_.empty() && reign_.WhyNoAnswer().ok()) return run();
  held_.push_back(std::move(run));
}

void JobLoop::RunHeld() {
  while (!held_.empty() && reign_.WhyNoAnswer().ok()) {
    const auto run = std::move(held_.front());
    held_.pop_front();
    run();
  }
}

void JobLoop::Perform(ServedJob& job, JobMachine::Action& action) {
  if (auto* const send = std::get_if<JobMachine::Send>(&action)) {
    if (auto* const assignment = std::get_if<Assignment>(&send->message)) {
      assignment->secret = SecretOf(job, send->header, assignment->run_id);
    }
    Send(job, send->header, send->message);
  } else if (auto* const answer = std::get_if<JobMachine::Answer>(&action)) {
    Answer(*answer);
  } else if (auto* const merge = std::get_if<JobMachine::MergeStacks>(&action)) {
    stack_worker_.Perform(job.name, std::move(*merge));
  } else if (auto* const judge = std::get_if<JobMachine::JudgeStacks>(&action)) {
    stack_worker_.Perform(job.name, std::move(*judge));
  } else if (auto* const forget = std::get_if<JobMachine::ForgetStacks>(&action)) {
    stack_worker_.Perform(job.name, *forget);
  } else if (auto* const shown = std::get_if<JobMachine::ShowStacks>(&action)) {
    const auto asked = asked_.stacks.extract(shown->ticket);
    if (!asked.empty()) asked.mapped()(Stacks{std::move(shown->tree), std::move(shown->missing)});
  } else if (const auto* const happened = std::get_if<JobMachine::Happened>(&action)) {
    logs_.OnEvent(job, happened->event);
    if (options_.events) {
      options_.events(job.name, job.owner, happened->event.requeue_number, happened->event);
    }
  } else if (const auto* const note = std::get_if<JobMachine::Note>(&action)) {
    options_.log(job.name, note->text);
  }
}

// Derived from the key: the same for every agent of the generation at any time, and stored nowhere.
// Two runs with the same job name have different secrets. So have two owners' jobs with the same
// name.
std::string JobLoop::SecretOf(const ServedJob& job, const Header& header, RunId run_id) const {
  if (options_.secret_key.empty() || job.owner.empty()) return "";
  return auth::HmacSha256(
      options_.secret_key,
      absl::StrCat("generation ", header.generation.value, " of ", header.requeue_number,
                   " of run ", run_id.value, " of ", job.owner.size(), " ", job.owner, job.name));
}

void JobLoop::Forget(const std::string& name) {
  const auto found = jobs_.find(name);
  const JobPtr job = found->second;  // `name` may be a reference to job->name
  SetDeadline(*job, std::nullopt);
  jobs_.erase(found);
  output_.Erase(job->name);
}

bool JobLoop::IsCurrent(const ServedJob& job) const {
  const auto found = jobs_.find(job.name);
  return found != jobs_.end() && found->second.get() == &job;
}

}  // namespace ddprun
