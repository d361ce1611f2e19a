#include "rendezvous/service/round_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/auth/principal.h"
#include "rendezvous/auth/refusal_counters.h"
#include "rendezvous/wire/record.h"

namespace ddprun {
namespace {

absl::Status ShutDownStatus() { return absl::UnavailableError("the rendezvous is shutting down"); }

absl::Status OthersJob(const std::string& job) {
  return absl::PermissionDeniedError(absl::StrCat("the job ", job, " belongs to somebody else"));
}

bool IsHeartbeatAck(const Round::Action& action) {
  const auto* const send = std::get_if<Round::Send>(&action);
  return send != nullptr && std::holds_alternative<HeartbeatAck>(send->message);
}

}  // namespace

RoundLoop::RoundLoop(RoundLoopOptions options)
    : recorded_(std::move(options.recorded)),
      options_(std::move(options)),
      thread_([this] { Run(); }) {}

RoundLoop::~RoundLoop() { Shutdown(); }

// ---- from other threads ----

void RoundLoop::OnOpen(std::shared_ptr<AgentStream> stream) {
  // There is nothing to do until its first message comes, or the time for that is over.
  if (!Enqueue(Opened{stream}, By::kWhoeverIsNext)) stream->Close(ShutDownStatus());
}

void RoundLoop::OnMessage(std::shared_ptr<AgentStream> stream, Header header,
                          AgentMessage message) {
  // Agents join together: while they are taken in, the caller reads the next one's message.
  const By by = std::holds_alternative<Join>(message) ? By::kThread : By::kCaller;
  Enqueue(Message{std::move(stream), std::move(header), std::move(message)}, by);
}

void RoundLoop::OnEnd(std::shared_ptr<AgentStream> stream, absl::Status why) {
  Enqueue(Ended{std::move(stream), std::move(why)}, By::kCaller);
}

void RoundLoop::OnAgentGone(Header header, std::string principal,
                            std::function<void(absl::Status)> done) {
  const auto refuse = [done] { done(ShutDownStatus()); };
  const auto run = [this, header = std::move(header), principal = std::move(principal), done] {
    const auto found = jobs_.find(header.job);
    if (found != jobs_.end() && !auth::MayAct(principal, found->second->owner)) {
      done(OthersJob(header.job));
      return;
    }
    if (found != jobs_.end()) Step(JobPtr(found->second), Round::AgentGone{header.incarnation});
    done(absl::OkStatus());
  };
  if (!Enqueue(Asked{run, refuse})) refuse();
}

void RoundLoop::GetStatus(std::string owner, std::string name,
                          std::function<void(std::vector<JobStatus>)> done) {
  const auto refuse = [done] { done({}); };
  const bool queued = Enqueue(Asked{[this, owner = std::move(owner), name = std::move(name), done] {
                                      std::vector<JobStatus> found;
                                      for (const auto& [job_name, job] : jobs_) {
                                        const bool owned = owner.empty() || job->owner == owner;
                                        const bool meant = name.empty() || job_name == name;
                                        if (owned && meant)
                                          found.push_back(job->round.Status(now_));
                                      }
                                      done(std::move(found));
                                    },
                                    refuse});
  if (!queued) refuse();
}

void RoundLoop::StopJob(std::string owner, std::string name, bool save, AnswerCallback done) {
  const auto refuse = [done] { done(ShutDownStatus()); };
  const bool queued =
      Enqueue(Asked{[this, owner = std::move(owner), name = std::move(name), save, done] {
                      const JobPtr job = FindOwned(owner, name);
                      if (job == nullptr) {
                        done(absl::NotFoundError(absl::StrCat("there is no job ", name)));
                        return;
                      }
                      answers_[++next_ticket_] = done;
                      Step(job, Round::StopAsked{save, next_ticket_});
                    },
                    refuse});
  if (!queued) refuse();
}

void RoundLoop::DrainNode(std::string owner, std::string name, std::string host,
                          AnswerCallback done) {
  const auto refuse = [done] { done(ShutDownStatus()); };
  const auto run = [this, owner = std::move(owner), name = std::move(name), host = std::move(host),
                    done] {
    std::vector<JobPtr> meant;
    for (const auto& [job_name, job] : jobs_) {
      if (job->round.finished() || (!name.empty() && job_name != name)) continue;
      if (owner.empty() || job->owner == owner) meant.push_back(job);
    }
    // One answer for all: of a node that is in one job, what that job says.
    struct Answers {
      std::vector<std::string> accepted;
      std::vector<std::string> refused;
    };
    const auto answers = std::make_shared<Answers>();
    const auto left = std::make_shared<std::size_t>(meant.size());
    const auto conclude = [done, answers, name, host] {
      if (!answers->accepted.empty()) {
        done(absl::StrJoin(answers->accepted, "; "));
      } else if (!answers->refused.empty()) {
        done(absl::FailedPreconditionError(absl::StrJoin(answers->refused, "; ")));
      } else {
        done(absl::NotFoundError(absl::StrCat("there is no node ", host,
                                              name.empty() ? " in any job" : " in job " + name)));
      }
    };
    if (meant.empty()) conclude();
    for (const JobPtr& job : meant) {
      const bool in_it = job->round.HasHost(host);
      answers_[++next_ticket_] = [answers, left, conclude,
                                  in_it](const absl::StatusOr<std::string>& answer) {
        if (answer.ok()) {
          answers->accepted.push_back(*answer);
        } else if (in_it) {
          answers->refused.emplace_back(answer.status().message());
        }
        if (--*left == 0) conclude();
      };
      Step(job, Round::DrainAsked{host, next_ticket_});
    }
  };
  if (!Enqueue(Asked{run, refuse})) refuse();
}

void RoundLoop::Shutdown() {
  {
    const std::lock_guard lock(mutex_);
    shutdown_ = true;
    wake_.notify_one();
  }
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

bool RoundLoop::Enqueue(Event event, By by) {
  std::unique_lock lock(mutex_);
  if (shutdown_) return false;
  queue_.push_back(std::move(event));
  if (by == By::kCaller && !handling_) {
    HandleQueue(lock);
  } else if (by != By::kWhoeverIsNext && !std::exchange(woken_, true) && !handling_) {
    wake_.notify_one();
  }
  return true;
}

// ---- the loop ----

void RoundLoop::Run() {
  now_ = std::chrono::steady_clock::now();
  TakeRecordedJobs();
  std::unique_lock lock(mutex_);
  EndHandling();
  while (AwaitWork(lock)) HandleQueue(lock);
  wake_.wait(lock, [this] { return !handling_; });
  HandleQueue(lock);
  lock.unlock();
  for (auto& [ticket, done] : std::exchange(answers_, {})) done(ShutDownStatus());
  while (!sessions_.empty()) Close(sessions_.begin()->first, ShutDownStatus());
}

bool RoundLoop::AwaitWork(std::unique_lock<std::mutex>& lock) {
  while (!shutdown_ && (handling_ || !woken_)) {
    if (woken_) {
      wake_.wait(lock);  // for who handles what there was
      continue;
    }
    const TimePoint until = sleeps_until_ = next_deadline_;
    const bool over = wake_.wait_until(lock, until) == std::cv_status::timeout;
    if (over && until >= next_deadline_) woken_ = true;
  }
  return !shutdown_;
}

void RoundLoop::TakeRecordedJobs() {
  for (const RecordedJob& recorded : std::exchange(recorded_, {})) {
    const auto job = std::make_shared<Job>(recorded, now_, options_.round);
    jobs_[recorded.name] = job;
    ++live_jobs_;
    if (job->round.finished()) {
      OnFinished(job);
      continue;
    }
    ++jobs_begun_;
    SetDeadline(*job, job->round.NextDeadline());
    if (options_.events) {
      JobEvent event{.kind = JobEvent::Kind::kRecovered};
      event.generation = recorded.record.generation;
      event.nodes = static_cast<int>(recorded.record.members.size());
      options_.events(job->name, job->owner, recorded.record.epoch, event);
    }
  }
}

void RoundLoop::HandleQueue(std::unique_lock<std::mutex>& lock) {
  handling_ = true;
  woken_ = false;
  const bool last = shutdown_;
  // Read before the queue is taken: what is queued later belongs to a later time.
  now_ = std::chrono::steady_clock::now();
  events_.swap(queue_);
  lock.unlock();
  for (Event& event : events_) {
    std::visit([this](auto& alternative) { Handle(alternative); }, event);
    CloseRefused();
  }
  events_.clear();
  if (!last) {
    Tick();
    CloseRefused();
    const RoundLoopLoad load{sessions_.size(), live_jobs_, jobs_begun_, AwaitedAgents()};
    if (load != load_ && options_.load) options_.load(load);
    load_ = load;
  }
  lock.lock();
  EndHandling();
}

void RoundLoop::EndHandling() {
  handling_ = false;
  // The last of these for sessions that open meanwhile.
  next_deadline_ =
      std::min(NextDeadline().value_or(TimePoint::max()), now_ + options_.time_to_join);
  if (woken_ || shutdown_ || next_deadline_ < sleeps_until_) wake_.notify_one();
}

void RoundLoop::Handle(Opened& event) {
  AgentStream* const stream = event.stream.get();
  unjoined_.emplace_back(now_ + options_.time_to_join, event.stream);
  sessions_.emplace(stream, Session{std::move(event.stream), nullptr, {}});
  stream->RequestMessage();
}

void RoundLoop::Handle(Message& event) {
  const auto found = sessions_.find(event.stream.get());
  if (found == sessions_.end()) return;  // closed by us while the message was on its way
  Session& session = found->second;
  if (session.job == nullptr) {
    if (!std::holds_alternative<Join>(event.message)) {
      Refuse(event.stream, refusal::kMalformed,
             absl::InvalidArgumentError("the first message of a session must be a Join"));
      return;
    }
    if (!Admit(session, event.header, std::get<Join>(event.message))) return;
  }
  if (event.header.job != session.job->name || event.header.incarnation != session.incarnation) {
    Refuse(event.stream, refusal::kMalformed,
           absl::InvalidArgumentError("Header.job and Header.incarnation must stay what they were "
                                      "in the Join of the session"));
    return;
  }
  Step(session.job, Round::Received{std::move(event.header), std::move(event.message)});
  event.stream->RequestMessage();
}

bool RoundLoop::Admit(Session& session, const Header& header, const Join& join) {
  JobPtr job;
  if (const auto found = jobs_.find(header.job); found != jobs_.end()) job = found->second;
  // Also of a job that is over: its name is its owner's until it is forgotten.
  if (job != nullptr && !auth::MayAct(session.stream->Principal(), job->owner)) {
    Refuse(session.stream, refusal::kOtherOwner, OthersJob(header.job));
    return false;
  }
  if (job != nullptr && job->round.BeginsAnother(header, join)) {
    Forget(header.job);  // its name is used again
    job = nullptr;
  }
  const auto most = static_cast<std::size_t>(options_.round.max_agents);
  if (job != nullptr && !job->round.Knows(header.incarnation) &&
      static_cast<std::size_t>(job->round.agent_count()) >= most) {
    Refuse(session.stream, refusal::kTooManyAgents,
           absl::ResourceExhaustedError(
               absl::StrCat("the job ", header.job, " has ", most, " agents already")));
    return false;
  }
  if (job == nullptr) {
    if (live_jobs_ >= options_.max_jobs) {
      Refuse(session.stream, refusal::kTooManyJobs,
             absl::ResourceExhaustedError(
                 absl::StrCat("the rendezvous has ", live_jobs_,
                              " jobs, and no more are possible: use another rendezvous")));
      return false;
    }
    job = std::make_shared<Job>(header.job, session.stream->Principal(), header.epoch,
                                options_.round);
    jobs_[header.job] = job;
    ++jobs_begun_;
    ++live_jobs_;
  }
  session.job = job;
  session.incarnation = header.incarnation;
  AgentStream*& place = job->streams[header.incarnation.value];
  AgentStream* const older = std::exchange(place, session.stream.get());
  if (older != nullptr) {
    Close(older, absl::AbortedError("the same agent opened a newer session"));
  }
  return true;
}

void RoundLoop::Refuse(const std::shared_ptr<AgentStream>& stream, const char* counter,
                       absl::Status why) {
  stream->CountRefusal(counter, why);
  Ended end{stream, std::move(why)};
  Handle(end);
}

void RoundLoop::CloseRefused() {
  while (!refused_.empty()) {
    const auto [stream, reason] = std::move(refused_.back());
    refused_.pop_back();
    if (!sessions_.contains(stream.get())) continue;  // refused twice
    stream->CountRefusal(refusal::kNotInThisJob, absl::FailedPreconditionError(reason));
    Ended end{stream, absl::OkStatus()};  // the agent knows why, and the log as well
    Handle(end);
  }
}

void RoundLoop::Handle(Ended& event) {
  const auto found = sessions_.find(event.stream.get());
  if (found == sessions_.end()) return;
  const JobPtr job = found->second.job;
  const Incarnation incarnation = found->second.incarnation;
  if (!event.why.ok()) {
    options_.log(
        job == nullptr ? "" : job->name,
        absl::StrCat("closed the session of ", event.stream->Peer(), ": ", event.why.message()));
  }
  Close(event.stream.get(), event.why);
  if (job != nullptr) Step(job, Round::StreamBroken{incarnation});
}

void RoundLoop::Close(AgentStream* stream, const absl::Status& why) {
  const auto node = sessions_.extract(stream);
  const Session& session = node.mapped();
  if (session.job != nullptr) {
    const auto place = session.job->streams.find(session.incarnation.value);
    // It may belong to the agent's newer session by now.
    if (place != session.job->streams.end() && place->second == stream) {
      session.job->streams.erase(place);
    }
  }
  session.stream->Close(why);
}

void RoundLoop::CloseSilent() {
  while (!unjoined_.empty()) {
    const auto& [deadline, weak] = unjoined_.front();
    const std::shared_ptr<AgentStream> stream = weak.lock();
    const auto session = stream == nullptr ? sessions_.end() : sessions_.find(stream.get());
    const bool silent = session != sessions_.end() && session->second.job == nullptr;
    if (silent && deadline > now_) return;
    unjoined_.pop_front();
    if (silent) {
      Refuse(stream, refusal::kNoJoin, absl::DeadlineExceededError("no Join came in time"));
    }
  }
}

void RoundLoop::Tick() {
  CloseSilent();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    const auto found = jobs_.find(deadlines_.begin()->second->name);
    if (found == jobs_.end() || found->second.get() != deadlines_.begin()->second) {
      SetDeadline(*deadlines_.begin()->second, std::nullopt);  // its name is used again
      continue;
    }
    Step(JobPtr(found->second), Round::Tick{});
  }
  ForgetEnded();
}

std::optional<TimePoint> RoundLoop::NextDeadline() const {
  std::optional<TimePoint> next;
  if (!deadlines_.empty()) next = deadlines_.begin()->first;
  if (!ended_.empty()) {
    const TimePoint forget = ended_.front().at + options_.keep_ended;
    if (!next || forget < *next) next = forget;
  }
  if (!unjoined_.empty() && (!next || unjoined_.front().first < *next)) {
    next = unjoined_.front().first;
  }
  return next;
}

void RoundLoop::SetDeadline(Job& job, std::optional<TimePoint> deadline) {
  if (job.deadline == deadline) return;
  if (job.deadline) deadlines_.erase({*job.deadline, &job});
  job.deadline = deadline;
  if (deadline) deadlines_.emplace(*deadline, &job);
}

// ---- a job ----

void RoundLoop::Step(const JobPtr& job, const Round::Event& event) {
  const bool was_finished = job->round.finished();
  std::optional<std::uint64_t> batch;  // what the following actions wait for
  std::vector<Round::Action> actions = job->round.Step(event, now_);
  const BurstGate::Burst burst(&gate_, actions.size());
  for (Round::Action& action : actions) {
    if (const auto* const persist = std::get_if<Round::Persist>(&action)) {
      if (options_.store == nullptr) continue;  // to encode 16,384 nodes takes a while
      batch = Commit({{wire::JobKey(job->name), wire::EncodeRecord(job->owner, persist->record)}});
      continue;
    }
    if (batch && *batch <= durable_) batch.reset();
    const bool waits = batch || !job->held.empty();
    if (waits && !IsHeartbeatAck(action)) {
      const std::uint64_t until = batch ? *batch : job->held.back().first;
      job->held.emplace_back(until, std::move(action));
      if (waiting_.empty() || waiting_.back().second != job || waiting_.back().first != until) {
        waiting_.emplace_back(until, job);
      }
    } else {
      Perform(*job, action);
    }
  }
  if (job->round.finished() && !was_finished) OnFinished(job);
  SetDeadline(*job, job->round.NextDeadline());
  if (!job->round.begun() && job->streams.size() <= 1) {
    // Its first Join was refused: there never was such a job.
    const auto found = jobs_.find(job->name);
    if (found != jobs_.end() && found->second == job) {
      jobs_.erase(found);
      --live_jobs_;
      --jobs_begun_;
    }
  }
}

void RoundLoop::Perform(Job& job, Round::Action& action) {
  if (auto* const send = std::get_if<Round::Send>(&action)) {
    const auto stream = job.streams.find(send->header.incarnation.value);
    if (stream == job.streams.end()) return;
    stream->second->Send(send->header, send->message);
    if (const auto* const refused = std::get_if<Refused>(&send->message)) {
      refused_.emplace_back(sessions_.at(stream->second).stream, refused->reason);
    }
  } else if (auto* const answer = std::get_if<Round::Answer>(&action)) {
    const auto asked = answers_.extract(answer->ticket);
    if (asked.empty()) return;
    if (answer->accepted) {
      asked.mapped()(std::move(answer->text));
    } else {
      asked.mapped()(absl::FailedPreconditionError(answer->text));
    }
  } else if (const auto* const happened = std::get_if<Round::Happened>(&action)) {
    if (options_.events) {
      options_.events(job.name, job.owner, happened->event.epoch, happened->event);
    }
  } else if (const auto* const note = std::get_if<Round::Note>(&action)) {
    options_.log(job.name, note->text);
  }
}

std::uint64_t RoundLoop::Commit(Store::Batch batch) {
  const std::uint64_t number = ++committed_;
  if (options_.store == nullptr) {
    durable_ = number;
  } else {
    // Also from the loop's own thread, by a store that is done at once: then it is heard of next.
    options_.store->Commit(std::move(batch), [this, number] { Enqueue(Committed{number}); });
  }
  return number;
}

void RoundLoop::Handle(Committed& event) {
  durable_ = event.batch;
  while (!waiting_.empty() && waiting_.front().first <= durable_) {
    const JobPtr job = std::move(waiting_.front().second);
    waiting_.pop_front();
    const BurstGate::Burst burst(&gate_, job->held.size());
    while (!job->held.empty() && job->held.front().first <= durable_) {
      Round::Action action = std::move(job->held.front().second);
      job->held.pop_front();
      Perform(*job, action);
    }
  }
}

void RoundLoop::OnFinished(const JobPtr& job) {
  --live_jobs_;
  const auto agents = static_cast<std::size_t>(job->round.agent_count());
  ended_.push_back({now_, job, agents});
  ended_agents_ += agents;
}

std::size_t RoundLoop::AwaitedAgents() const {
  if (!sessions_.empty() || live_jobs_ > 0) return 0;
  std::size_t awaited = 0;
  for (const auto& ended : ended_) {
    if (const JobPtr job = ended.job.lock()) awaited += job->round.awaited();
  }
  return awaited;
}

void RoundLoop::ForgetEnded() {
  const auto too_many = [this] {
    return ended_.size() > options_.max_ended ||
           (ended_agents_ > options_.max_ended_agents && ended_.size() > 1);
  };
  while (!ended_.empty() && (too_many() || ended_.front().at + options_.keep_ended <= now_)) {
    const JobPtr job = ended_.front().job.lock();
    ended_agents_ -= ended_.front().agents;
    ended_.pop_front();
    if (job == nullptr) continue;  // its name was used again
    const auto found = jobs_.find(job->name);
    if (found != jobs_.end() && found->second == job) Forget(std::string(job->name));
  }
}

void RoundLoop::Forget(const std::string& name) {
  const auto found = jobs_.find(name);
  SetDeadline(*found->second, std::nullopt);
  jobs_.erase(found);
  if (options_.store != nullptr) Commit({{wire::JobKey(name), std::nullopt}});
}

RoundLoop::JobPtr RoundLoop::FindOwned(const std::string& owner, const std::string& name) const {
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || (!owner.empty() && found->second->owner != owner)) return nullptr;
  return found->second;
}

}  // namespace ddprun
