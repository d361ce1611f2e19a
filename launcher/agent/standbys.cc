#include "launcher/agent/standbys.h"

#include <poll.h>
#include <sys/epoll.h>

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/log.h"
#include "launcher/os/background_priority.h"
#include "launcher/os/file_util.h"
#include "launcher/os/output/output_pipe.h"
#include "launcher/python/python_path.h"
#include "worker/contract/control.h"

namespace ddprun {
namespace {

bool HasEnded(const SpawnedProcess& process) {
  pollfd ended{process.pidfd.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) == 1;
}

// NAME=value entries, each with a NUL behind it.
std::string NulTerminated(const std::vector<std::string>& env) {
  std::string bytes;
  for (const std::string& entry : env) bytes.append(entry).push_back('\0');
  return bytes;
}

}  // namespace

Standbys::Standbys(Options options, EventLoop* loop, ProcessRunner* runner, WriterThread* files,
                   ControlSocket* control, OffLoop* disk, RunDirectory* run)
    : options_(std::move(options)),
      loop_(loop),
      runner_(runner),
      files_(files),
      control_(control),
      disk_(disk),
      run_(run),
      pool_(options_.pool) {}

Standbys::~Standbys() { Lose(); }

void Standbys::Feed(const StandbyPool::Event& event) {
  for (const StandbyPool::Action& action : pool_.Step(event, EventLoop::Clock::now())) {
    std::visit([this](const auto& chosen) { Perform(chosen); }, action);
  }
  ArmDeadline();
}

void Standbys::ArmDeadline() {
  loop_->CancelTimer(timer_);
  if (const auto next = pool_.NextDeadline()) {
    timer_ = loop_->AddTimer(*next, [this] { Feed(StandbyPool::Tick{}); });
  }
}

// ---- acting ----

void Standbys::Perform(const StandbyPool::StartStandby& start) {
  const absl::Status status = Start(start.id, start.local_rank);
  if (status.ok()) return;
  Feed(StandbyPool::StandbyEnded{start.id, absl::StrCat("did not start: ", status.message())});
}

absl::Status Standbys::Start(Id id, LocalRank local_rank) {
  auto process = runner_->Spawn(options_.request(local_rank));
  if (!process.ok()) return process.status();
  LowerPriority(process->pid);
  LogPump::Options logs;
  logs.directory = run_->StandbyFolder(id);
  Standby standby;
  standby.pump =
      std::make_unique<LogPump>(loop_, files_, std::move(logs), std::move(process->stdout_pipe),
                                std::move(process->stderr_pipe));
  standby.process = *std::move(process);
  LogDebug(absl::StrCat("standby ", id, " for local rank ", local_rank.value, " is pid ",
                        standby.process.pid));
  Add(id, std::move(standby));
  return absl::OkStatus();
}

void Standbys::Add(Id id, Standby standby) {
  loop_->Watch(standby.process.pidfd.get(), EPOLLIN, [this, id](std::uint32_t) { OnEnded(id); });
  standbys_.emplace(id, std::move(standby));
}

void Standbys::Adopt(LocalRank local_rank, SpawnedProcess process, std::unique_ptr<LogPump> pump) {
  Standby standby{std::move(process), std::move(pump), /*was_worker=*/true};
  const std::optional<Id> id = pool_.Adopt(local_rank, EventLoop::Clock::now());
  if (!id) return Discard(standby);
  LogDebug(absl::StrCat("pid ", standby.process.pid, " stays, and has left its generation"));
  Add(*id, std::move(standby));
}

void Standbys::Perform(const StandbyPool::EndStandby& end) { Discard(Release(end.id)); }

void Standbys::Perform(const StandbyPool::Note& note) { LogInfo(note.text); }

std::optional<Standbys::HandedOver> Standbys::HandOver(LocalRank local_rank,
                                                       const std::vector<std::string>& env,
                                                       const std::string& folder) {
  while (const std::optional<Id> id = pool_.Take(local_rank)) {
    Standby standby = Release(*id);
    std::vector<std::string> own = env;
    TakeOffPythonPath(options_.python_path, &own);
    auto out = OutputPipe::Make();
    auto err = OutputPipe::Make();
    const auto environment = MemoryFile(NulTerminated(own));
    if (out.ok() && err.ok() && environment.ok() && !HasEnded(standby.process)) {
      const int descriptors[control::kGoDescriptors] = {environment->get(), out->write_end.get(),
                                                        err->write_end.get()};
      if (control_->SendTo(standby.process.pid, control::kGo, "1", descriptors) > 0) {
        if (!standby.was_worker) disk_->Run([folder, id = *id] { LinkStandby(folder, id); });
        standby.process.stdout_pipe = std::move(out->read_end);
        standby.process.stderr_pipe = std::move(err->read_end);
        standby.process.outcome_pipe.reset();  // its program runs
        return HandedOver{std::move(standby.process), std::move(standby.pump)};
      }
    }
    LogDebug(absl::StrCat("standby ", *id, " (pid ", standby.process.pid, ") cannot be used"));
    Discard(standby);
  }
  return std::nullopt;
}

// ---- what happened ----

void Standbys::OnWaiting(pid_t peer) {
  for (const auto& [id, standby] : standbys_) {
    if (standby.process.pid != peer) continue;
    RestorePriority(peer);
    LogDebug(absl::StrCat("standby ", id, " (pid ", peer, ") waits"));
    return Feed(StandbyPool::StandbyWaiting{id});
  }
}

void Standbys::OnEnded(Id id) {
  const Standby standby = Release(id);
  // The zombie keeps the group's number ours.
  runner_->SignalGroup(standby.process.pid, SIGKILL).IgnoreError();
  standby.pump->ReadToEnd();
  const auto status = runner_->Reap(standby.process.pidfd.get());
  // Of one that was a worker it was heard before.
  const auto outcome = standby.process.outcome_pipe.valid()
                           ? SpawnOutcome(standby.process.outcome_pipe.get())
                           : std::nullopt;
  if (outcome && !outcome->ok()) {
    Feed(StandbyPool::StandbyEnded{id, absl::StrCat("did not start: ", outcome->message())});
    return;
  }
  std::string how = status.ok() ? status->Describe() : std::string(status.status().message());
  LogDebug(absl::StrCat("standby ", id, " (pid ", standby.process.pid, ") ended: ", how));
  const std::vector<std::string> words = standby.pump->StderrTail();
  if (!words.empty()) absl::StrAppend(&how, " (", words.back(), ")");
  Feed(StandbyPool::StandbyEnded{id, absl::StrCat("by ", how)});
}

Standbys::Standby Standbys::Release(Id id) {
  Standby standby = std::move(standbys_.at(id));
  standbys_.erase(id);
  loop_->Unwatch(standby.process.pidfd.get());
  return standby;
}

void Standbys::Discard(const Standby& standby) {
  standby.pump->ReadToEnd();
  RestorePriority(standby.process.pid);  // also dying takes CPU time
  const absl::Status status = runner_->Discard(standby.process);
  // Unavailable: it died with the guardian, as the agent is about to learn.
  if (!status.ok() && !absl::IsUnavailable(status)) LogWarning(status.message());
}

void Standbys::Signal(int signo) {
  for (const auto& [id, standby] : standbys_) {
    runner_->SignalGroup(standby.process.pid, signo).IgnoreError();
  }
}

void Standbys::Lose() {
  pool_.Step(StandbyPool::JobEnded{}, EventLoop::Clock::now());  // what it wants is not possible
  loop_->CancelTimer(timer_);
  while (!standbys_.empty()) Release(standbys_.begin()->first).pump->ReadToEnd();
}

}  // namespace ddprun
