// JobLoop: questions and orders of operators.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/service/job/drain_answer.h"
#include "rendezvous/service/job/job_loop.h"
#include "worker/contract/job_name.h"

namespace ddprun {

absl::Status JobLoop::ShutDownStatus() {
  return absl::UnavailableError("the rendezvous is shutting down");
}

void JobLoop::Ask(std::function<void()> run, RefuseCallback refuse) {
  if (!executor_.Post(Asked{std::move(run), refuse})) refuse(ShutDownStatus());
}

void JobLoop::Handle(Asked& event) {
  const absl::Status why = event.refuse ? reign_.WhyNoAnswer() : absl::OkStatus();
  why.ok() ? event.run() : event.refuse(why);
}

void JobLoop::MayAnswer(std::function<void(absl::Status)> done) {
  Ask([done] { done(absl::OkStatus()); }, done);
}

std::vector<JobStatus> JobLoop::StatusOf(const std::string& owner, const std::string& name) const {
  std::vector<JobStatus> found;
  for (const auto& [job_name, job] : jobs_) {
    const bool owned = owner.empty() || job->owner == owner;
    const bool meant = name.empty() || job_name == name;
    if (owned && meant) found.push_back(job->machine.Status(now_));
  }
  return found;
}

void JobLoop::GetStatus(std::string owner, std::string name,
                        std::function<void(absl::StatusOr<std::vector<JobStatus>>)> done) {
  const auto run = [this, owner = std::move(owner), name = std::move(name), done] {
    done(StatusOf(owner, name));
  };
  Ask(run, done);
}

void JobLoop::CheckReady(std::function<void(absl::Status)> done) {
  const auto run = [this, done] {
    const auto since = output_.waits_since();
    if (!since || now_ - *since < options_.slow_commit) return done(absl::OkStatus());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now_ - *since).count();
    done(absl::UnavailableError(
        absl::StrCat("the store of the job records (disk or etcd) has not taken a change for ",
                     seconds, " s; until it does, no job forms or ends")));
  };
  Ask(run, [done](const absl::Status& why) { done(why); });
}

void JobLoop::GetMeasured(std::string owner, MeasuredCallback done) {
  MeasureNext(std::make_shared<Measured>(Measured{std::move(owner), std::move(done)}));
}

void JobLoop::MeasureNext(const std::shared_ptr<Measured>& measured) {
  const auto run = [this, measured] {
    const auto& jobs = measured->jobs;
    auto next = jobs.empty() ? jobs_.begin() : jobs_.upper_bound(jobs.back().job);
    const auto is_meant = [&](const auto& entry) {
      return measured->owner.empty() || entry.second->owner == measured->owner;
    };
    next = std::find_if(next, jobs_.end(), is_meant);
    if (next != jobs_.end()) {
      measured->jobs.push_back(next->second->machine.Status(now_));
      return MeasureNext(measured);
    }
    Counted counted = counted_;
    counted.commits = output_.times();
    measured->done(std::move(measured->jobs), counted);
  };
  Ask(run, [measured](const absl::Status&) { measured->done({}, {}); });
}

void JobLoop::GetSummaries(std::string owner,
                           std::function<void(absl::StatusOr<std::vector<Summary>>)> done) {
  const auto run = [this, owner = std::move(owner), done] {
    std::vector<Summary> found;
    for (const auto& [name, job] : jobs_) {
      if (!owner.empty() && job->owner != owner) continue;
      found.push_back({job->machine.Status(now_, StatusDetail::kWithoutNodes),
                       static_cast<int>(job->machine.agent_count())});
    }
    done(std::move(found));
  };
  Ask(run, done);
}

void JobLoop::StopJob(std::string owner, std::string name, bool save, AnswerCallback done) {
  const auto run = [this, owner = std::move(owner), name = std::move(name), save, done] {
    const JobPtr job = FindOwned(owner, name);
    if (job == nullptr) {
      done(absl::NotFoundError(absl::StrCat("there is ", NoSuchJob(name))));
      return;
    }
    asked_.answers[++asked_.last_ticket] = done;
    Step(job, JobMachine::StopAsked{save, asked_.last_ticket});
  };
  Ask(run, done);
}

void JobLoop::DrainNode(std::string owner, std::string name, std::string host,
                        AnswerCallback done) {
  const auto run = [this, owner = std::move(owner), name = std::move(name), host = std::move(host),
                    done] {
    std::vector<JobPtr> meant;
    for (const auto& [job_name, job] : jobs_) {
      if (job->machine.finished() || (!name.empty() && job_name != name)) continue;
      if (owner.empty() || job->owner == owner) meant.push_back(job);
    }
    const auto answer = std::make_shared<DrainAnswer>(
        meant.size(),
        absl::StrCat("there is no node ", host, " in ", name.empty() ? "any job" : NameOfJob(name)),
        done);
    for (const JobPtr& job : meant) {
      asked_.answers[++asked_.last_ticket] =
          [answer, in_it = job->machine.HasHost(host)](const absl::StatusOr<std::string>& of_one) {
            answer->Add(in_it, of_one);
          };
      Step(job, JobMachine::DrainAsked{host, asked_.last_ticket});
    }
  };
  Ask(run, done);
}

void JobLoop::GetStacks(std::string owner, std::string name, StacksCallback done) {
  const auto run = [this, owner = std::move(owner), name = std::move(name), done] {
    const JobPtr job = FindOwned(owner, name);
    if (job == nullptr) {
      done(absl::NotFoundError(absl::StrCat("there is ", NoSuchJob(name))));
      return;
    }
    asked_.stacks[++asked_.last_ticket] = done;
    Step(job, JobMachine::StacksAsked{asked_.last_ticket});
  };
  Ask(run, done);
}

void JobLoop::Answer(JobMachine::Answer& answer) {
  if (const auto asked = asked_.stacks.extract(answer.ticket); !asked.empty()) {
    asked.mapped()(absl::FailedPreconditionError(answer.text));
    return;
  }
  const auto asked = asked_.answers.extract(answer.ticket);
  if (asked.empty()) return;
  if (answer.accepted) {
    asked.mapped()(std::move(answer.text));
  } else {
    asked.mapped()(absl::FailedPreconditionError(answer.text));
  }
}

JobPtr JobLoop::FindOwned(const std::string& owner, const std::string& name) const {
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || (!owner.empty() && found->second->owner != owner)) return nullptr;
  return found->second;
}

void JobLoop::ReadLogs(LogReadId id, std::string owner, LogRequest request,
                       std::shared_ptr<LogReader> reader) {
  const auto run = [this, id, owner = std::move(owner), request = std::move(request), reader] {
    const JobPtr job = FindOwned(owner, request.job);
    if (job == nullptr) {
      reader->OnEnd(absl::NotFoundError(absl::StrCat("there is ", NoSuchJob(request.job))));
      return;
    }
    logs_.Read(id, job, request, reader);
  };
  Ask(run, [reader](const absl::Status& why) { reader->OnEnd(why); });
}

void JobLoop::AcknowledgeLogs(LogReadId id, std::size_t bytes) {
  Tell([this, id, bytes] { WhenValid([this, id, bytes] { logs_.Acknowledge(id, bytes); }); });
}

void JobLoop::CancelLogs(LogReadId id) {
  Tell([this, id] { WhenValid([this, id] { logs_.Cancel(id); }); });
}

}  // namespace ddprun
