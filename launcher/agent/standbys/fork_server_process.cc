#include "launcher/agent/standbys/fork_server_process.h"

#include <sys/epoll.h>

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/log.h"
#include "launcher/os/background_priority.h"
#include "launcher/os/file_util.h"
#include "worker/contract/control.h"

namespace ddprun {

ForkServerProcess::ForkServerProcess(Options options, EventLoop* loop, ProcessRunner* runner,
                                     WriterThread* files, ControlSocket* control,
                                     std::function<void(ForkServerState)> on_change)
    : options_(std::move(options)),
      loop_(loop),
      runner_(runner),
      files_(files),
      control_(control),
      on_change_(std::move(on_change)),
      core_(options_.core) {}

ForkServerProcess::~ForkServerProcess() { Lose(); }

void ForkServerProcess::Feed(const ForkServer::Event& event) {
  const ForkServerState before = core_.state();
  for (const ForkServer::Action& action : core_.Step(event, EventLoop::Clock::now())) {
    std::visit([this](const auto& chosen) { Perform(chosen); }, action);
  }
  loop_->CancelTimer(timer_);
  if (const auto next = core_.NextDeadline()) {
    timer_ = loop_->AddTimer(*next, [this] { Feed(ForkServer::Tick{}); });
  }
  if (core_.state() == before) return;
  waiting_.clear();
  asked_.clear();
  on_change_(core_.state());
}

void ForkServerProcess::Ask(ForkServer::Number number, LocalRank local_rank) {
  waiting_.emplace_back(number, local_rank);
  AskNext();
}

bool ForkServerProcess::Answered(ForkServer::Number number) {
  const auto is_it = [number](const auto& entry) { return entry.first == number; };
  if (std::erase_if(waiting_, is_it) + asked_.erase(number) == 0) return false;
  Feed(ForkServer::ForkAnswered{number});
  AskNext();
  return true;
}

void ForkServerProcess::AskNext() {
  while (core_.state() == ForkServerState::kServing && !waiting_.empty() &&
         asked_.size() < kMostAsked) {
    const auto [number, local_rank] = waiting_.front();
    waiting_.pop_front();
    asked_.insert(number);
    const auto file = MemoryFile(options_.order(local_rank));
    if (file.ok()) {
      const int descriptor = file->get();
      control_->SendTo(process_.pid, control::kFork, absl::StrCat(number), {&descriptor, 1});
    } else {
      LogWarning(absl::StrCat("cannot ask the fork server: ", file.status().message()));
    }
    Feed(ForkServer::ForkAsked{number});  // a lost request shows as a missing answer
  }
}

void ForkServerProcess::Hear(pid_t peer, const ForkServerMsg& message) {
  if (!lives() || peer != process_.pid) return;
  if (!message.unfit.empty()) return Feed(ForkServer::ServerUnfit{message.unfit});
  RestorePriority(process_.pid);
  LogDebug(absl::StrCat("the fork server (pid ", process_.pid, ") has imported its modules"));
  Feed(ForkServer::ServerReady{});
}

void ForkServerProcess::GiveWay(bool trains) {
  gives_way_ = trains;
  if (!lives() || core_.state() != ForkServerState::kImporting) return;
  trains ? LowerPriority(process_.pid) : RestorePriority(process_.pid);
}

void ForkServerProcess::Signal(int signo) {
  if (lives()) runner_->SignalGroup(process_.pid, signo).IgnoreError();
}

void ForkServerProcess::Lose() {
  core_.Step(ForkServer::JobEnded{},
             EventLoop::Clock::now());  // its actions are not possible any more
  loop_->CancelTimer(timer_);
  if (lives()) Release();
}

// ---- acting ----

void ForkServerProcess::Perform(const ForkServer::StartServer&) {
  auto process = runner_->Spawn(options_.request);
  if (!process.ok()) {
    // Posted, because the Feed() that decided this start is not finished yet.
    loop_->Post([this, how = absl::StrCat("(it did not start: ", process.status().message(), ")")] {
      Feed(ForkServer::ServerEnded{how});
    });
    return;
  }
  LogPump::Options logs;
  logs.directory = options_.log_folder;
  pump_ = std::make_unique<LogPump>(loop_, files_, std::move(logs), std::move(process->stdout_pipe),
                                    std::move(process->stderr_pipe));
  process_ = *std::move(process);
  if (gives_way_) LowerPriority(process_.pid);
  loop_->Watch(process_.pidfd.get(), EPOLLIN, [this](std::uint32_t) { OnEnded(); });
  LogDebug(absl::StrCat("the fork server is pid ", process_.pid));
}

void ForkServerProcess::Perform(const ForkServer::EndServer&) {
  if (!lives()) return;
  const SpawnedProcess process = Release();
  RestorePriority(process.pid);  // dying needs CPU time, too
  const absl::Status status = runner_->Discard(process);
  // Unavailable: the process died with the guardian; the agent will learn of it.
  if (!status.ok() && !absl::IsUnavailable(status)) LogWarning(status.message());
}

void ForkServerProcess::Perform(const ForkServer::Note& note) { LogInfo(note.text); }

// ---- what happened ----

void ForkServerProcess::OnEnded() {
  control_->ReadToEnd(process_.pid);  // its last message may tell why it must not be forked
  if (!lives()) return;
  runner_->SignalGroup(process_.pid, SIGKILL)
      .IgnoreError();  // the zombie keeps the number from being reused
  const SpawnedProcess process = Release();
  const auto status = runner_->Reap(process.pidfd.get());
  const auto outcome = SpawnOutcome(process.outcome_pipe.get());
  std::string how;
  if (outcome && !outcome->ok()) {
    how = absl::StrCat("(it did not start: ", outcome->message(), ")");
  } else {
    how = absl::StrCat("by ",
                       status.ok() ? status->Describe() : std::string(status.status().message()));
    const std::vector<std::string> words = pump_->StderrTail();
    if (!words.empty()) absl::StrAppend(&how, " (", words.back(), ")");
  }
  Feed(ForkServer::ServerEnded{how});
}

SpawnedProcess ForkServerProcess::Release() {
  pump_->ReadToEnd();
  loop_->Unwatch(process_.pidfd.get());
  return std::exchange(process_, {});
}

}  // namespace ddprun
