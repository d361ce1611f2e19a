#include "rendezvous/service/round_loop.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/auth/principal.h"
#include "rendezvous/auth/refusal_counters.h"
#include "rendezvous/wire/limits.h"

namespace ddprun {
namespace {

absl::Status ShutDownStatus() { return absl::UnavailableError("the rendezvous is shutting down"); }

}  // namespace

RoundLoop::RoundLoop(RoundOptions options, JobLog log, LoadObserver observer)
    : options_(options),
      log_(std::move(log)),
      observer_(std::move(observer)),
      thread_([this] { Run(); }) {}

RoundLoop::~RoundLoop() { Shutdown(); }

void RoundLoop::OnOpen(std::shared_ptr<AgentStream> stream) {
  if (!Enqueue(Opened{stream})) stream->Close(ShutDownStatus());
}

void RoundLoop::OnMessage(std::shared_ptr<AgentStream> stream, Header header,
                          AgentMessage message) {
  Enqueue(Message{std::move(stream), std::move(header), std::move(message)});
}

void RoundLoop::OnEnd(std::shared_ptr<AgentStream> stream, absl::Status why) {
  Enqueue(Ended{std::move(stream), std::move(why)});
}

void RoundLoop::OnAgentGone(Header header, std::string principal) {
  Enqueue(Gone{std::move(header), std::move(principal)});
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

bool RoundLoop::Enqueue(Event event) {
  const std::lock_guard lock(mutex_);
  if (shutdown_) return false;
  queue_.push_back(std::move(event));
  wake_.notify_one();
  return true;
}

void RoundLoop::Run() {
  std::vector<Event> events;
  for (;;) {
    const std::optional<TimePoint> deadline = NextDeadline();
    bool last = false;
    {
      std::unique_lock lock(mutex_);
      const auto ready = [this] { return shutdown_ || !queue_.empty(); };
      if (deadline) {
        wake_.wait_until(lock, *deadline, ready);
      } else {
        wake_.wait(lock, ready);
      }
      // Read before the queue is taken: what is queued later belongs to a later time.
      now_ = std::chrono::steady_clock::now();
      events.swap(queue_);
      last = shutdown_;
    }
    for (Event& event : events) {
      std::visit([this](auto& alternative) { Handle(alternative); }, event);
    }
    events.clear();
    if (last) break;
    Tick();
    const RoundLoopLoad load{sessions_.size(), jobs_.size(), jobs_begun_};
    if (load != load_ && observer_) observer_(load);
    load_ = load;
  }
  while (!sessions_.empty()) Close(sessions_.begin()->first, ShutDownStatus());
}

void RoundLoop::Handle(Opened& event) {
  AgentStream* const stream = event.stream.get();
  sessions_.emplace(stream, Session{std::move(event.stream), nullptr, {}, {}});
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
    if (!Admit(session, event.header)) return;
  }
  if (event.header.job != session.job_name || event.header.incarnation != session.incarnation) {
    Refuse(event.stream, refusal::kMalformed,
           absl::InvalidArgumentError("Header.job and Header.incarnation must stay what they were "
                                      "in the Join of the session"));
    return;
  }
  Step(session.job, session.job_name,
       Round::Received{std::move(event.header), std::move(event.message)});
  event.stream->RequestMessage();
}

bool RoundLoop::Admit(Session& session, const Header& header) {
  const auto found = jobs_.find(header.job);
  if (found == jobs_.end() && jobs_.size() >= wire::kMaxJobs) {
    Refuse(session.stream, refusal::kTooManyJobs,
           absl::ResourceExhaustedError(
               absl::StrCat("this rendezvous serves ", wire::kMaxJobs, " jobs already")));
    return false;
  }
  if (found != jobs_.end() && !auth::MayAct(session.stream->Principal(), found->second->owner)) {
    Refuse(session.stream, refusal::kOtherOwner,
           absl::PermissionDeniedError(
               absl::StrCat("the job ", header.job, " belongs to somebody else")));
    return false;
  }
  if (found != jobs_.end() && found->second->streams.size() >= wire::kMaxAgentsPerJob) {
    Refuse(session.stream, refusal::kTooManyAgents,
           absl::ResourceExhaustedError(absl::StrCat("the job ", header.job, " has ",
                                                     wire::kMaxAgentsPerJob, " agents already")));
    return false;
  }
  std::shared_ptr<Job>& job = jobs_[header.job];
  if (job == nullptr) {
    job = std::make_shared<Job>(
        Job{Round(header.job, header.epoch, options_), session.stream->Principal(), {}});
    ++jobs_begun_;
  }
  session.job = job;
  session.job_name = header.job;
  session.incarnation = header.incarnation;
  AgentStream*& place = session.job->streams[header.incarnation];
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

void RoundLoop::Handle(Ended& event) {
  const auto found = sessions_.find(event.stream.get());
  if (found == sessions_.end()) return;
  const std::shared_ptr<Job> job = found->second.job;
  const std::string name = found->second.job_name;
  const Incarnation incarnation = found->second.incarnation;
  if (!event.why.ok()) {
    log_(name,
         absl::StrCat("closed the session of ", event.stream->Peer(), ": ", event.why.message()));
  }
  Close(event.stream.get(), event.why);
  if (job != nullptr) {
    Step(job, name, Round::StreamBroken{incarnation});
  }
}

void RoundLoop::Handle(Gone& event) {
  const auto found = jobs_.find(event.header.job);
  if (found == jobs_.end()) return;
  const std::shared_ptr<Job> job = found->second;  // Step may take it out of jobs_
  if (!auth::MayAct(event.principal, job->owner)) return;
  Step(job, event.header.job, Round::AgentGone{event.header.incarnation});
}

void RoundLoop::Close(AgentStream* stream, const absl::Status& why) {
  const auto node = sessions_.extract(stream);
  const Session& session = node.mapped();
  if (session.job != nullptr) {
    const auto place = session.job->streams.find(session.incarnation);
    // It may belong to the agent's newer session by now.
    if (place != session.job->streams.end() && place->second == stream) {
      session.job->streams.erase(place);
    }
  }
  session.stream->Close(why);
}

void RoundLoop::Tick() {
  std::vector<std::pair<std::string, std::shared_ptr<Job>>> due;  // Step may take jobs out of jobs_
  for (const auto& [name, job] : jobs_) {
    const std::optional<TimePoint> deadline = job->round.NextDeadline();
    if (deadline && *deadline <= now_) due.emplace_back(name, job);
  }
  for (const auto& [name, job] : due) Step(job, name, Round::Tick{});
}

std::optional<TimePoint> RoundLoop::NextDeadline() const {
  std::optional<TimePoint> next;
  for (const auto& [name, job] : jobs_) {
    const std::optional<TimePoint> deadline = job->round.NextDeadline();
    if (deadline && (!next || *deadline < *next)) next = deadline;
  }
  return next;
}

void RoundLoop::Step(const std::shared_ptr<Job>& job, const std::string& name,
                     const Round::Event& event) {
  if (job->round.finished()) return;  // its agents were told; what they still say changes nothing
  for (const Round::Action& action : job->round.Step(event, now_)) {
    if (const auto* send = std::get_if<Round::Send>(&action)) {
      const auto stream = job->streams.find(send->header.incarnation);
      if (stream != job->streams.end()) stream->second->Send(send->header, send->message);
    } else {
      log_(name, std::get<Round::Note>(action).text);
    }
  }
  if (job->round.finished()) jobs_.erase(name);
}

}  // namespace ddprun
