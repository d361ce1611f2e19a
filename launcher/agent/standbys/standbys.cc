#include "launcher/agent/standbys/standbys.h"

#include <poll.h>
#include <sys/epoll.h>

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/config/machine/gpus.h"
#include "launcher/log.h"
#include "launcher/os/background_priority.h"
#include "launcher/os/file_util.h"
#include "launcher/os/output/output_pipe.h"
#include "launcher/python/python_path.h"
#include "worker/contract/control.h"
#include "worker/contract/process_stat.h"

namespace ddprun {
namespace {

// True from the first moment of its exit. Its pidfd says so only once its memory is free. With GPUs
// the pidfd decides: another process must not take the GPU while the exiting process holds its
// memory.
bool IsEnding(const SpawnedProcess& process) {
  pollfd ended{process.pidfd.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) == 1 || (IsExiting(process.pid) && !HasGpuDevices());
}

Forks ForksIn(ForkServerState state) {
  switch (state) {
    case ForkServerState::kImporting:
    case ForkServerState::kPaused:
      return Forks::kLater;
    case ForkServerState::kServing:
      return Forks::kNow;
    default:
      return Forks::kNever;
  }
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
      pool_(options_.pool) {
  if (!options_.fork_server) return;
  fork_server_.emplace(
      *options_.fork_server, loop, runner, files, control,
      [this](ForkServerState state) { Feed(StandbyPool::ForksChanged{ForksIn(state)}); });
}

Standbys::~Standbys() { Lose(); }

void Standbys::Begin() {
  if (fork_server_) fork_server_->Feed(ForkServer::JobStarted{});
}

void Standbys::AwaitStart(Duration limit, std::function<void()> done) {
  if (!fork_server_ && !pool_.start_is_coming()) return done();
  when_start_can_begin_.push_back(std::move(done));
  if (fork_server_) Feed(StandbyPool::StartComing{limit});
}

void Standbys::StartAhead(Duration limit, std::function<void()> done) {
  when_start_can_begin_.push_back(std::move(done));
  if (pool_.start_is_coming()) return;  // asked again: the first limit holds
  Feed(StandbyPool::StartComing{limit, /*program_waits=*/true});
}

void Standbys::Feed(const StandbyPool::Event& event) {
  for (const StandbyPool::Action& action : pool_.Step(event, EventLoop::Clock::now())) {
    std::visit([this](const auto& chosen) { Perform(chosen); }, action);
  }
  ArmDeadline();
  if (fork_server_) TellForkServer(event);
}

void Standbys::TellForkServer(const StandbyPool::Event& event) {
  if (std::holds_alternative<StandbyPool::GenerationStarted>(event)) fork_server_->GiveWay(true);
  if (std::holds_alternative<StandbyPool::GenerationEnded>(event)) fork_server_->GiveWay(false);
  if (std::holds_alternative<StandbyPool::JobEnded>(event)) {
    fork_server_->Feed(ForkServer::JobEnded{});
  }
}

void Standbys::ArmDeadline() {
  loop_->CancelTimer(timer_);
  if (const auto next = pool_.NextDeadline()) {
    timer_ = loop_->AddTimer(*next, [this] { Feed(StandbyPool::Tick{}); });
  }
}

// ---- acting ----

void Standbys::Perform(const StandbyPool::StartStandby& start) {
  if (fork_server_) return fork_server_->Ask(start.id, start.local_rank);
  const absl::Status status = Start(start.id, start.local_rank);
  if (status.ok()) return;
  // Later, because the pool's other actions of this step must be performed first.
  loop_->AddTimer(EventLoop::Clock::now(),
                  [this, id = start.id, why = std::string(status.message())] {
                    Feed(StandbyPool::StandbyEnded{id, absl::StrCat("did not start: ", why)});
                  });
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

void Standbys::Perform(const StandbyPool::EndStandby& end) {
  if (fork_server_ && fork_server_->Answered(end.id)) return;  // OnForked() will end it
  if (!standbys_.contains(end.id)) return;                     // it did not start
  Discard(Release(end.id));
}

void Standbys::Perform(const StandbyPool::StartCanBegin&) {
  for (const auto& done : std::exchange(when_start_can_begin_, {})) done();
}

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
    const auto environment = MemoryFile(own);
    if (out.ok() && err.ok() && environment.ok() && !IsEnding(standby.process)) {
      const int descriptors[control::kGoDescriptors] = {environment->get(), out->write_end.get(),
                                                        err->write_end.get()};
      if (control_->SendTo(standby.process.pid, control::kGo, "1", descriptors) > 0) {
        if (!standby.was_worker) {
          pool_.OnUsed();
          disk_->Run([folder, before = FolderOf(*id, standby)] { LinkStandby(folder, before); });
        }
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

std::string Standbys::FolderOf(Id id, const Standby& standby) const {
  return standby.pump ? run_->StandbyFolder(id) : run_->ForkServerFolder();
}

// ---- what happened ----

void Standbys::Hear(pid_t peer, const ControlMessage& message) {
  if (const auto* standby = std::get_if<StandbyMsg>(&message)) {
    if (standby->waiting) OnWaiting(peer);
  } else if (const auto* server = std::get_if<ForkServerMsg>(&message)) {
    if (fork_server_) fork_server_->Hear(peer, *server);
  } else if (const auto* forked = std::get_if<ForkedMsg>(&message)) {
    if (fork_server_) OnForked(peer, forked->number);
  }
}

void Standbys::OnForked(pid_t peer, std::int64_t number) {
  auto process = runner_->Adopt(peer);
  const Id id = static_cast<Id>(number);
  const bool wanted = id == number && fork_server_->Answered(id);
  if (!process.ok()) {
    LogDebug(absl::StrCat("standby ", number, " (pid ", peer,
                          ") cannot be used: ", process.status().message()));
    if (wanted) Feed(StandbyPool::StandbyEnded{id, std::string(process.status().message())});
    return;
  }
  Standby standby{*std::move(process), nullptr};
  if (!wanted) return Discard(standby);
  LogDebug(absl::StrCat("standby ", id, " (pid ", peer, ") waits"));
  Add(id, std::move(standby));
  Feed(StandbyPool::StandbyWaiting{id});
}

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
  // The zombie keeps the number of its group from being reused.
  runner_->SignalGroup(standby.process.pid, SIGKILL).IgnoreError();
  if (standby.pump) standby.pump->ReadToEnd();
  const auto status = runner_->Reap(standby.process.pidfd.get());
  // A former worker has no outcome pipe any more, and a forked process never had one.
  const auto outcome = standby.process.outcome_pipe.valid()
                           ? SpawnOutcome(standby.process.outcome_pipe.get())
                           : std::nullopt;
  if (outcome && !outcome->ok()) {
    Feed(StandbyPool::StandbyEnded{id, absl::StrCat("did not start: ", outcome->message())});
    return;
  }
  std::string how = status.ok() ? status->Describe() : std::string(status.status().message());
  LogDebug(absl::StrCat("standby ", id, " (pid ", standby.process.pid, ") ended: ", how));
  if (standby.pump && !standby.pump->StderrTail().empty()) {
    absl::StrAppend(&how, " (", standby.pump->StderrTail().back(), ")");
  }
  Feed(StandbyPool::StandbyEnded{id, absl::StrCat("by ", how)});
}

Standbys::Standby Standbys::Release(Id id) {
  Standby standby = std::move(standbys_.at(id));
  standbys_.erase(id);
  loop_->Unwatch(standby.process.pidfd.get());
  return standby;
}

void Standbys::Discard(const Standby& standby) {
  if (standby.pump) standby.pump->ReadToEnd();
  RestorePriority(standby.process.pid);  // dying needs CPU time, too
  const absl::Status status = runner_->Discard(standby.process);
  // Unavailable: the process died with the guardian; the agent will learn of it.
  if (!status.ok() && !absl::IsUnavailable(status)) LogWarning(status.message());
}

void Standbys::Signal(int signo) {
  for (const auto& [id, standby] : standbys_) {
    runner_->SignalGroup(standby.process.pid, signo).IgnoreError();
  }
  if (fork_server_) fork_server_->Signal(signo);
}

void Standbys::Lose() {
  pool_.Step(StandbyPool::JobEnded{},
             EventLoop::Clock::now());  // its actions are not possible any more
  loop_->CancelTimer(timer_);
  if (fork_server_) fork_server_->Lose();
  while (!standbys_.empty()) {
    const Standby standby = Release(standbys_.begin()->first);
    if (standby.pump) standby.pump->ReadToEnd();
  }
}

}  // namespace ddprun
