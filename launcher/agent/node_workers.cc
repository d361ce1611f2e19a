#include "launcher/agent/node_workers.h"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "launcher/log.h"
#include "launcher/os/process/process_id.h"
#include "worker/contract/control.h"
#include "worker/contract/progress_page.h"

namespace ddprun {
namespace {

// The wait for a lower rank that was forked earlier and may fail as well.
constexpr std::chrono::milliseconds kLowerRankWait{20};
// The time for starting workers in one turn of the loop. One worker takes about 0.2 ms.
constexpr std::chrono::milliseconds kStartTurn{5};
// A dying process's threads begin to exit one after the other, within some 0.1 ms; later if they
// get no CPU or are inside a driver. The pause between two looks doubles: 1 s altogether.
constexpr std::chrono::milliseconds kLookAgain{1};
constexpr int kMostLooks = 10;

}  // namespace

NodeWorkers::NodeWorkers(int count, WorkerLogs::Options logs, EventLoop* loop,
                         ProcessRunner* runner, WriterThread* files, Console console,
                         ControlSocket* control, Events events)
    : loop_(loop),
      runner_(runner),
      control_(control),
      events_(std::move(events)),
      logs_(std::move(logs), loop, files, std::move(console)),
      progress_(count),
      deaths_(loop),
      clearer_(loop, runner, {events_.stuck_ended, events_.lost}),
      workers_(count) {}

NodeWorkers::~NodeWorkers() { ForgetStarts(); }

void NodeWorkers::StartAll(Start start, Standbys* standbys) {
  starting_ = Starting{std::move(start), standbys};
  StartSome();
}

void NodeWorkers::StartSome() {
  const auto until = EventLoop::Clock::now() + kStartTurn;
  // An event handler may reset starting_.
  while (starting_ && starting_->next < static_cast<int>(workers_.size())) {
    const auto now = EventLoop::Clock::now();
    if (now >= until) {
      starting_->turn = loop_->AddTimer(now, [this] { StartSome(); });
      return;
    }
    const LocalRank local_rank{starting_->next++};
    if (const absl::Status status = StartOne(local_rank); !status.ok() && starting_) {
      events_.not_started(local_rank, status);
      StopStarting(status);  // the later ones are not tried
    }
  }
  starting_.reset();
}

absl::Status NodeWorkers::StartOne(LocalRank local_rank) {
  const Rank rank{starting_->how.first_rank.value + local_rank.value};
  const SpawnRequest request = starting_->how.request(local_rank);
  const std::string folder = starting_->how.folder(local_rank);
  auto worker = std::make_unique<Worker>();
  worker->rank = rank;
  if (auto standby = starting_->standbys->HandOver(local_rank, request.env, folder)) {
    worker->process = std::move(standby->process);
    worker->waited = true;
    worker->pump_before = std::move(standby->before);
  } else {
    auto process = runner_->Spawn(request);
    if (absl::IsUnavailable(process.status())) events_.lost(process.status());
    if (!process.ok()) return process.status();
    worker->process = *std::move(process);
  }
  worker->pump = logs_.Pump(folder, rank, local_rank, &worker->process);
  loop_->Watch(worker->process.pidfd.get(), EPOLLIN,
               [this, local_rank](std::uint32_t) { OnEnded(local_rank); });
  LogDebug(absl::StrCat("rank ", rank.value, " is pid ", worker->process.pid,
                        worker->waited ? ", which had waited" : ""));
  const pid_t pid = worker->process.pid;
  const int outcome = worker->process.outcome_pipe.get();
  const bool starts = worker->starting();
  workers_[local_rank.value] = std::move(worker);
  if (starts) {
    loop_->Watch(outcome, EPOLLIN, [this, local_rank](std::uint32_t) { OnOutcome(local_rank); });
  } else {
    events_.started(local_rank, pid);
  }
  return absl::OkStatus();
}

void NodeWorkers::StopStarting() {
  StopStarting(absl::CancelledError("its generation ended before it was started"));
}

void NodeWorkers::StopStarting(const absl::Status& why) {
  if (!starting_) return;
  loop_->CancelTimer(starting_->turn);
  const int first = starting_->next;
  starting_.reset();
  for (int i = first; i < static_cast<int>(workers_.size()); ++i) {
    events_.not_started(LocalRank{i}, why);
  }
}

void NodeWorkers::ForgetStarts() {
  if (starting_) loop_->CancelTimer(starting_->turn);
  starting_.reset();
  loop_->CancelTimer(std::exchange(tell_not_executed_, 0));
  not_executed_.clear();
}

int NodeWorkers::warm_count() const {
  return static_cast<int>(std::count_if(
      workers_.begin(), workers_.end(),
      [](const std::unique_ptr<Worker>& worker) { return worker != nullptr && worker->waited; }));
}

void NodeWorkers::Signal(LocalRank local_rank, int signo) {
  if (Worker* const worker = workers_[local_rank.value].get()) Signal(*worker, signo);
}

void NodeWorkers::SignalAll(int signo) {
  for (const auto& worker : workers_) {
    if (worker != nullptr) Signal(*worker, signo);
  }
}

void NodeWorkers::Signal(Worker& worker, int signo) {
  if (signo == SIGKILL && !worker.killed_at) worker.killed_at = EventLoop::Clock::now();
  if (signo == SIGTERM || signo == SIGKILL)
    worker.leaves = false;  // it does not leave any more: it is being ended
  const absl::Status status = runner_->SignalGroup(worker.process.pid, signo);
  if (!status.ok() && !absl::IsNotFound(status)) LogWarning(status.message());
}

void NodeWorkers::AskToSave(LocalRank local_rank) {
  if (const auto pid = PidOf(local_rank)) control_->SendTo(*pid, control::kSave, "1");
}

void NodeWorkers::AskToLeave(LocalRank local_rank) {
  Worker* const worker = workers_[local_rank.value].get();
  if (worker == nullptr) return;
  worker->leaves = control_->SendTo(worker->process.pid, control::kLeave, "1") > 0;
}

bool NodeWorkers::LetStay(LocalRank local_rank, Standbys& standbys) {
  if (const Worker* const worker = workers_[local_rank.value].get(); !worker || !worker->leaves) {
    return false;
  }
  const std::unique_ptr<Worker> worker = std::move(workers_[local_rank.value]);
  loop_->Unwatch(worker->process.pidfd.get());  // if it has ended, `standbys` will see it
  standbys.Adopt(local_rank, std::move(worker->process), std::move(worker->pump));
  return true;
}

void NodeWorkers::HandOverSecret(LocalRank local_rank) {
  const auto pid = PidOf(local_rank);
  if (pid) control_->SendTo(*pid, control::kSecret, absl::BytesToHexString(secret_));
}

void NodeWorkers::Hear(LocalRank local_rank, const ProcessId& speaker,
                       const ControlMessage& message, TimePoint now) {
  progress_.OnMessage(local_rank, message, now, speaker);
  const bool wants_page =
      std::holds_alternative<ReadyMsg>(message) || std::holds_alternative<ProgressMsg>(message);
  if (!wants_page) return;
  const auto pid = PidOf(local_rank);
  const int page = pid ? progress_.PageOf(local_rank) : -1;
  if (page < 0) return;
  control_->SendTo(*pid, control::kProgress, absl::StrCat(kProgressVersion), {&page, 1});
  if (!std::exchange(workers_[local_rank.value]->has_page, true)) {
    deaths_.Watch(page, [this, local_rank, pid = *pid] { OnDying(local_rank, pid, 1); });
  }
}

std::vector<pid_t> NodeWorkers::Pids() const {
  std::vector<pid_t> pids;
  for (const auto& worker : workers_) {
    if (worker != nullptr) pids.push_back(worker->process.pid);
  }
  return pids;
}

std::vector<UsageMeter::RankWorker> NodeWorkers::RankWorkers() const {
  std::vector<UsageMeter::RankWorker> workers;
  for (const auto& worker : workers_) {
    if (worker != nullptr && !worker->starting()) {
      workers.push_back({worker->rank, worker->process.pid});
    }
  }
  return workers;
}

std::optional<pid_t> NodeWorkers::PidOf(LocalRank local_rank) const {
  const Worker* const worker = workers_[local_rank.value].get();
  if (worker == nullptr) return std::nullopt;
  return worker->process.pid;
}

std::optional<LocalRank> NodeWorkers::WithPid(pid_t pid) const {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i] != nullptr && workers_[i]->process.pid == pid) {
      return LocalRank{static_cast<int>(i)};
    }
  }
  return std::nullopt;
}

void NodeWorkers::Abandon() {
  ForgetStarts();
  for (std::unique_ptr<Worker>& worker : workers_) {
    if (worker != nullptr) LetGo(*worker);
    worker.reset();
  }
  clearer_.Forget();
}

void NodeWorkers::Clear(bool may_be_exiting, NodeClearer::Done done) {
  ForgetStarts();
  bool is_late = false;  // the Supervisor gave a worker up, so the time is over
  for (std::unique_ptr<Worker>& worker : workers_) {
    if (worker == nullptr) continue;
    is_late = true;
    LetGo(*worker);
    clearer_.Adopt(worker->process.pid, std::move(worker->process.pidfd), worker->rank,
                   worker->killed_at.value_or(EventLoop::Clock::now()));
    worker.reset();
  }
  clearer_.Clear({is_late, may_be_exiting}, std::move(done));
}

void NodeWorkers::OnOutcome(LocalRank local_rank) {
  std::unique_ptr<Worker>& worker = workers_[local_rank.value];
  const auto outcome = SpawnOutcome(worker->process.outcome_pipe.get());
  if (!outcome) return;
  if (outcome->ok()) {
    loop_->Unwatch(worker->process.outcome_pipe.get());
    worker->process.outcome_pipe.reset();
    events_.started(local_rank, worker->process.pid);
  } else {
    const std::unique_ptr<Worker> failed = std::move(worker);
    LetGo(*failed);
    const absl::Status discarded = runner_->Discard(failed->process);
    if (absl::IsUnavailable(discarded)) return events_.lost(discarded);
    not_executed_.emplace(local_rank, *outcome);
  }
  TellNotExecuted(/*all=*/false);
}

void NodeWorkers::TellNotExecuted(bool all) {
  while (!not_executed_.empty()) {
    const LocalRank lowest = not_executed_.begin()->first;
    const bool waits = std::any_of(
        workers_.begin(), workers_.begin() + lowest.value,
        [](const std::unique_ptr<Worker>& lower) { return lower != nullptr && lower->starting(); });
    if (waits && !all) {
      if (tell_not_executed_ != 0) return;
      tell_not_executed_ = loop_->AddTimer(EventLoop::Clock::now() + kLowerRankWait, [this] {
        tell_not_executed_ = 0;
        TellNotExecuted(/*all=*/true);
      });
      return;
    }
    const auto failed = not_executed_.extract(not_executed_.begin());
    events_.not_started(lowest, failed.mapped());
  }
  loop_->CancelTimer(std::exchange(tell_not_executed_, 0));
}

void NodeWorkers::OnEnded(LocalRank local_rank) {
  if (workers_[local_rank.value]->starting()) OnOutcome(local_rank);  // the outcome is known by now
  if (workers_[local_rank.value] == nullptr) return;
  const std::unique_ptr<Worker> worker = TakeDead(local_rank);
  const auto status = runner_->Reap(worker->process.pidfd.get());
  if (absl::IsUnavailable(status.status())) return events_.lost(status.status());
  if (!status.ok()) LogError(status.status().message());
  TellEnded(local_rank, *worker, status.value_or(ExitStatus{255}));
}

void NodeWorkers::OnDying(LocalRank local_rank, pid_t pid, int tries) {
  if (PidOf(local_rank) != pid || workers_[local_rank.value]->starting()) return;
  const auto status = StatusOfExiting(pid);
  if (!status) {  // its pidfd will say when it has ended
    if (tries == kMostLooks) return;
    loop_->AddTimer(EventLoop::Clock::now() + kLookAgain * (1 << tries),
                    [this, local_rank, pid, tries] { OnDying(local_rank, pid, tries + 1); });
    return;
  }
  const std::unique_ptr<Worker> worker = TakeDead(local_rank);
  const auto reaped = runner_->Reap(worker->process.pidfd.get());
  if (absl::IsUnavailable(reaped.status())) return events_.lost(reaped.status());
  if (!reaped.ok()) clearer_.AdoptExiting(pid, std::move(worker->process.pidfd), worker->rank);
  TellEnded(local_rank, *worker, reaped.value_or(*status));
}

std::unique_ptr<NodeWorkers::Worker> NodeWorkers::TakeDead(LocalRank local_rank) {
  const bool was_killed = workers_[local_rank.value]->killed_at.has_value();  // by this agent
  // The process keeps the number of its group from being reused, also as a zombie. So kill the rest
  // of the group, read the worker's last messages, and let it be reaped only then.
  Signal(*workers_[local_rank.value], SIGKILL);
  LetGo(*workers_[local_rank.value]);
  std::unique_ptr<Worker> worker = std::move(workers_[local_rank.value]);
  if (!was_killed) worker->killed_at.reset();
  return worker;
}

void NodeWorkers::TellEnded(LocalRank local_rank, const Worker& worker, ExitStatus status) {
  const bool oom_killed = status.signal == SIGKILL && !worker.killed_at &&
                          oom_.WasKilled(worker.process.pid, EventLoop::Clock::now());
  events_.ended({local_rank, worker.process.pid, status, worker.pump->StderrTail(), oom_killed});
}

void NodeWorkers::LetGo(Worker& worker) {
  worker.leaves = false;  // a last message STANDBY=waiting must not make it a standby
  control_->ReadToEnd(worker.process.pid);
  worker.pump->ReadToEnd();
  loop_->Unwatch(worker.process.pidfd.get());
  if (worker.starting()) loop_->Unwatch(worker.process.outcome_pipe.get());
}

}  // namespace ddprun
