#include "launcher/agent/agent.h"

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/config/command_line_program.h"
#include "launcher/config/machine/gpus.h"
#include "launcher/log.h"
#include "launcher/text/hang_text.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/limits.h"
#include "worker/contract/control.h"
#include "worker/contract/overloaded.h"
#include "worker/contract/time_slice.h"

namespace ddprun {
namespace {

// The limit at the end of the job for a slow log disk or a slow terminal.
constexpr std::chrono::seconds kFileFlushTimeout{30};
constexpr std::chrono::seconds kConsoleFlushTimeout{2};
constexpr std::size_t kMostTreeLines = 40;  // on the console

// The limit for the fork server's imports. It is longer than ForkServer's own limit.
constexpr std::chrono::minutes kFirstStartLimit{6};
// The limit for a later start. The rendezvous waits 30 s for this node.
constexpr std::chrono::seconds kStartLimit{20};

// True: the command cannot be executed, so a retry cannot help.
bool IsPermanent(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
         absl::IsPermissionDenied(status);
}

// The exit code of a shell for a command that it cannot start.
int SpawnExitCode(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsInvalidArgument(status) ? kExitNotFound
                                                                     : kExitCannotExecute;
}

// The time for log readers to get the last output of the workers.
constexpr std::chrono::milliseconds kLogReadersLimit{500};

WriterThread::Options WriterOptions(const LogsConfig& logs, std::shared_ptr<WrittenFiles> written) {
  WriterThread::Options options;
  options.written = std::move(written);
  if (logs.when_full == "wait") options.when_full = WriterThread::WhenFull::kWait;
  options.max_file_bytes = static_cast<std::uint64_t>(logs.max_size);
  return options;
}

// Messages that need nothing more here. NodeWorkers has acted on the first two; only the fork
// server and its forked processes send the other two.
struct ForOthers {
  void operator()(const ByeMsg& /*message*/) const {}
  void operator()(const ProgressMsg& /*message*/) const {}
  void operator()(const ForkServerMsg& /*message*/) const {}
  void operator()(const ForkedMsg& /*message*/) const {}
};

}  // namespace

Agent::Agent(Options options, EventLoop* loop, ProcessRunner* runner, RendezvousClient* client,
             Console console, RunDirectory* run)
    : options_(std::move(options)),
      loop_(loop),
      runner_(runner),
      client_(client),
      console_(std::move(console)),
      run_(run),
      history_{RestartClock(options_.config.nproc_per_node)},
      checkpoints_(&options_.config, loop),
      master_(loop),
      run_files_(loop, run),
      files_(
          loop, [](const absl::Status& status) { LogWarning(status.message()); },
          WriterOptions(options_.config.logs, run_files_.written())) {}

Agent::~Agent() { client_->Close(); }

absl::StatusOr<Verdict> Agent::Run() {
  RunAsSoonAsWoken();  // the workers may compute on every core
  auto control = ControlSocket::Listen(
      loop_, run_->sockets(),
      [this](const ControlPeer& peer, const ControlMessage& message) {
        OnControlMessage(peer, message);
      },
      [](pid_t peer, const std::string& reason) {
        LogWarning(absl::StrCat("control socket, process ", peer, ": ", reason));
      },
      [this](pid_t pid) { return workers_ != nullptr && workers_->WithPid(pid).has_value(); });
  if (!control.ok()) return control.status();
  control_ = *std::move(control);
  workers_ = std::make_unique<NodeWorkers>(
      options_.config.nproc_per_node,
      WorkerLogs::Options{options_.config.logs, options_.config.role,
                          PrefixTemplate(options_.environ)},
      loop_, runner_, &files_, console_, control_.get(), WorkerEvents());
  history_.start_watch = std::make_unique<StartWatch>(
      loop_, options_.config.nproc_per_node, [this] { return workers_->Pids(); },
      [this](Generation generation, Duration took) {
        Feed(Supervisor::StartMeasured{generation, took});
      });
  const WorkerWatch::Options watched{options_.config.spec.heartbeat,
                                     options_.config.restart.hang.timeout != "off",
                                     RunsSitecustomize(options_.config.command)};
  watch_ = std::make_unique<WorkerWatch>(watched, loop_, workers_.get());
  usage_ = std::make_unique<UsageWatch>(loop_, workers_.get(), options_.meter, options_.board);
  programs_ = std::make_unique<WorkerPrograms>(&options_, run_, control_->path());
  standbys_ = std::make_unique<Standbys>(programs_->StandbyOptions(), loop_, runner_, &files_,
                                         control_.get(), run_files_.disk(), run_);
  SupervisorOptions supervisor = SupervisorOptionsOf(options_);
  supervisor.tells_steps = programs_->WillTellSteps();
  supervisor_ = std::make_unique<Supervisor>(std::move(supervisor));

  checkpoints_.WatchOwner(
      [this](std::string why) { Feed(Supervisor::Superseded{std::move(why)}); });
  standbys_->Begin();
  standbys_->AwaitStart(kFirstStartLimit, [this] { Join(); });
  loop_->Run();
  client_->Close();

  const auto now = EventLoop::Clock::now();
  if (!files_.Flush(now + kFileFlushTimeout)) {
    LogWarning(absl::StrCat("the disk did not keep up: the end of some log files in ", run_->path(),
                            " is missing"));
  }
  workers_->FlushLogs();
  console_.out->Flush(now + kConsoleFlushTimeout);
  console_.err->Flush(now + kConsoleFlushTimeout);
  history_.clock.Close();
  TakeRestartTimes();
  verdict_->restart_times.assign(history_.restarts.begin(), history_.restarts.end());
  verdict_->restore = history_.restore;
  verdict_->hang = history_.hang;
  if (verdict_->root_cause) verdict_->error_file = run_files_.ErrorFileOf(*verdict_->root_cause);
  return *verdict_;
}

void Agent::Join() {
  Feed(Supervisor::AgentStarted{});
  client_->Open([this](RendezvousClient::Event event) {
    loop_->Post([this, event = std::move(event)] { OnRendezvousEvent(event); });
  });
}

void Agent::OnSignal(int signo) {
  Feed(Supervisor::SignalReceived{signo, /*durable=*/!checkpoints_.states().files().empty()});
}

void Agent::OnSuspend() {
  workers_->SignalAll(SIGSTOP);
  standbys_->Signal(SIGSTOP);
}

void Agent::OnContinue() {
  workers_->SignalAll(SIGCONT);
  standbys_->Signal(SIGCONT);
}

// ---- deciding ----

void Agent::Feed(const Supervisor::Event& event) {
  supervisor_->Step(event, EventLoop::Clock::now());
  PerformDecided();
  if (const auto times = TakeRestartTimes()) Feed(Supervisor::RestartMeasured{*times});
}

// Performs the actions in order. An action may feed another event to the Supervisor. The actions
// decided by that event are performed after the earlier ones.
void Agent::PerformDecided() {
  if (performing_) return;
  performing_ = true;
  while (!verdict_) {
    std::optional<Supervisor::Action> action = supervisor_->NextAction(EventLoop::Clock::now());
    if (!action) break;
    std::visit([this](auto& chosen) { Perform(chosen); }, *action);
  }
  performing_ = false;
  ArmDeadline();
}

void Agent::ArmDeadline() {
  loop_->SetDeadline(supervisor_->NextDeadline(), [this] { Feed(Supervisor::Tick{}); });
}

// ---- acting ----

void Agent::Perform(Supervisor::Send& send) {
  auto* const stopped = std::get_if<Stopped>(&send.message);
  if (stopped != nullptr) stopped->calls = watch_->LastCalls(send.header.generation);
  if (auto* const join = std::get_if<ddprun::Join>(&send.message)) {
    join->log_folder = run_->path();
    join->has_checkpoint_folder = !options_.config.checkpoint_dir.empty();
  }
  checkpoints_.states().FillIn(&send.message);
  client_->Send(send.header, send.message);
}

void Agent::Perform(Supervisor::SendHeartbeat& send) {
  if (send.with_progress) {
    workers_->LookForOomKills(EventLoop::Clock::now());
    send.heartbeat.progress = watch_->Look();
    send.heartbeat.arrivals = master_.arrivals();
  }
  NodeUsage& usage = send.heartbeat.usage.emplace(usage_->Tell(send.round_trip));
  watch_->FillIn(&usage);
  AgentMessage message = std::move(send.heartbeat);
  checkpoints_.states().FillIn(&message);
  client_->Send(send.header, message);
}

void Agent::Perform(const Supervisor::ClearNode& clear) {
  workers_->Clear(clear.may_be_exiting && !HasGpuDevices(),
                  [this](const absl::StatusOr<std::vector<StuckProcess>>& stuck) {
                    if (!stuck.ok()) return OnWorkersLost(stuck.status());
                    history_.clock.NoWorkerLeft(EventLoop::Clock::now());
                    Feed(Supervisor::NodeCleared{*stuck});
                  });
}

void Agent::Perform(const Supervisor::ScanStates& scan) {
  checkpoints_.Scan(scan.run_id, [this] { Feed(Supervisor::StatesFound{}); });
}

void Agent::Perform(const Supervisor::OfferPort& offer) {
  Feed(Supervisor::PortOffered{master_.port().Offer(offer.workers_running)});
}

void Agent::Perform(const Supervisor::OpenStore& open) {
  master_.Open(open, [this, open](const absl::Status& opened) {
    if (opened.ok()) return Feed(Supervisor::StoreOpened{open.generation});
    Feed(Supervisor::StoreFailed{
        open.generation, absl::StrCat("this agent cannot serve torch's store on MASTER_PORT ",
                                      open.port, ": ", opened.message())});
  });
}

void Agent::Perform(const Supervisor::CloseStore&) { master_.Close(); }

void Agent::Perform(const Supervisor::StartStandbys&) {
  standbys_->StartAhead(kStandbysLimit, [this] { Feed(Supervisor::StandbysStarted{}); });
}

void Agent::Perform(const Supervisor::EndStandbys&) { standbys_->Feed(StandbyPool::JobEnded{}); }

void Agent::Perform(const Supervisor::PrepareFolders& prepare) {
  const auto ready = [this, generation = prepare.generation](const MadeFolders& made) {
    standbys_->AwaitStart(kStartLimit, [this, generation, made] {
      Feed(Supervisor::FoldersReady{generation, made.local_rank, made.error});
    });
  };
  run_files_.MakeFolders(prepare.generation, prepare.first_rank, options_.config.nproc_per_node,
                         ready);
  run_files_.logs().OnGenerationBegun(prepare.generation);
}

void Agent::Perform(const Supervisor::ReadErrorFile& read) {
  run_files_.ReadErrorFileOf(
      read.generation, read.local_rank, [this, read](const std::string& text) {
        Feed(Supervisor::ErrorFileRead{read.generation, read.local_rank, text});
      });
}

void Agent::Perform(const Supervisor::SpawnWorkers& spawn) {
  const Assignment& assignment = spawn.assignment;
  LogInfo(absl::StrCat("generation ", spawn.generation.value, ": node ", assignment.node_rank.value,
                       " of ", assignment.node_count, ", ranks ", assignment.first_rank.value, "-",
                       assignment.first_rank.value + options_.config.nproc_per_node - 1, " of ",
                       assignment.world_size, ", master ", assignment.master_addr, ":",
                       assignment.master_port, ", restart ", assignment.restart_count, " of ",
                       assignment.max_restarts,
                       assignment.restore ? "; " + Describe(*assignment.restore) : ""));
  master_.port().Use();
  history_.restore = assignment.restore;
  checkpoints_.EndScan();  // its result would be older than the workers' messages
  if (assignment.restore) checkpoints_.states().OnStarted(*assignment.restore);
  history_.clock.GenerationStarted(spawn.generation, EventLoop::Clock::now());
  run_files_.BeginGeneration(spawn.generation, assignment.first_rank);
  workers_->BeginGeneration(spawn.generation, assignment.secret, programs_->WillTellSteps());
  watch_->Begin(/*of_rank_0=*/assignment.first_rank == Rank{0});
  history_.start_watch->Begin(spawn.generation, assignment.master_port, assignment.world_size == 1);
  workers_->StartAll(
      {assignment.first_rank,
       [this, spawn](LocalRank local_rank) { return programs_->RequestFor(spawn, local_rank); },
       [this, generation = spawn.generation](LocalRank local_rank) {
         return run_->WorkerFolder(generation, local_rank);
       }},
      standbys_.get());
}

void Agent::Perform(const Supervisor::AllWorkersRun&) {
  history_.clock.WorkersSpawned(workers_->warm_count(), EventLoop::Clock::now());
  standbys_->Feed(StandbyPool::GenerationStarted{});
}

void Agent::Perform(const Supervisor::GenerationEnded&) {
  workers_->StopStarting();
  history_.clock.GenerationEnded(EventLoop::Clock::now());
  history_.start_watch->End();
  watch_->End();
  standbys_->Feed(StandbyPool::GenerationEnded{});
  run_files_.logs().OnGenerationEnded();
}

NodeWorkers::Events Agent::WorkerEvents() {
  return {
      .started =
          [this](LocalRank local_rank, pid_t pid) {
            Feed(Supervisor::WorkerSpawned{local_rank, pid});
          },
      .not_started = [this](LocalRank local_rank,
                            const absl::Status& why) { OnWorkerNotStarted(local_rank, why); },
      .ended = [this](const NodeWorkers::Ended& ended) { OnWorkerEnded(ended); },
      .lost = [this](const absl::Status& why) { OnWorkersLost(why); },
      .stuck_ended = [this](pid_t pid) { Feed(Supervisor::StuckProcessEnded{pid}); },
  };
}

void Agent::Perform(const Supervisor::SignalWorkers& signal) {
  for (const LocalRank local_rank : signal.local_ranks) workers_->Signal(local_rank, signal.signo);
}

void Agent::Perform(const Supervisor::AskWorkersToSave& ask) {
  for (const LocalRank local_rank : ask.local_ranks) workers_->AskToSave(local_rank);
}

void Agent::Perform(const Supervisor::AskWorkersToLeave& ask) {
  for (const LocalRank local_rank : ask.local_ranks) workers_->AskToLeave(local_rank);
}

void Agent::Perform(const Supervisor::TakeWorkerStacks& take) {
  std::vector<RankProcess> ranks;
  for (const auto& worker : take.workers) ranks.push_back({worker.rank, {}, worker.pid});
  watch_->TakeStacks(std::move(ranks), [this, generation = take.generation,
                                        request = take.request](const EncodedStackTree& tree) {
    Feed(Supervisor::WorkerStacksTaken{generation, request, tree});
  });
}

void Agent::Perform(const Supervisor::ShowHangStacks& show) {
  history_.hang = show.stacks;
  for (const std::string& line : show.stacks.verdict) LogInfo(line);
  for (const std::string& line : HangTreeLines(show.stacks, kMostTreeLines)) LogInfo(line);
  LogInfo(absl::StrCat("the stacks of all threads are in ",
                       run_files_.HangStacksPath(show.generation)));
  LogInfo(show.stacks.next);
  run_files_.WriteHangStacks(show.stacks, options_.config.rendezvous.id, show.generation);
}

void Agent::Perform(const Supervisor::SetFence& fence) { runner_->SetFence(fence.at); }

void Agent::Perform(const Supervisor::Note& note) { LogInfo(note.text); }

void Agent::Perform(const Supervisor::Exit& exit) {
  verdict_ = exit.verdict;
  run_files_.logs().Finish(kLogReadersLimit, [this, claim = exit.claim] {
    if (!claim || claim->run_id == RunId{} || !Release(*claim)) loop_->Quit();
  });
}

bool Agent::Release(const Supervisor::FolderClaim& claim) {
  CheckpointOwner holder{options_.config.rendezvous.id, options_.config.rendezvous.requeue_number,
                         claim.generation.value};
  holder.run = RunIdText(claim.run_id);
  return checkpoints_.Release(holder, [this] { loop_->Quit(); });
}

// ---- what happened ----

void Agent::OnWorkerNotStarted(LocalRank local_rank, const absl::Status& why) {
  Feed(Supervisor::SpawnFailed{local_rank, SpawnExitCode(why), std::string(why.message()),
                               IsPermanent(why)});
}

void Agent::OnWorkerEnded(const NodeWorkers::Ended& worker) {
  Supervisor::WorkerEnded ended;
  ended.local_rank = worker.local_rank;
  ended.status = worker.status;
  ended.stderr_tail = worker.stderr_tail;
  ended.ended_at_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  ended.oom_killed = worker.oom_killed;
  Feed(ended);
}

void Agent::OnWorkersLost(const absl::Status& why) {
  if (verdict_) return;
  workers_->Abandon();
  standbys_->Lose();
  Feed(Supervisor::WorkersLost{std::string(why.message())});
}

std::optional<RestartTimes> Agent::TakeRestartTimes() {
  std::optional<RestartTimes> times = history_.clock.Take();
  if (!times) return std::nullopt;
  LogInfo(Describe(*times, options_.config.nproc_per_node));
  history_.restarts.push_back(*times);
  if (history_.restarts.size() > kMaxEarlierCauses) history_.restarts.pop_front();
  return times;
}

void Agent::OnControlMessage(const ControlPeer& peer, const ControlMessage& message) {
  const auto now = EventLoop::Clock::now();
  const auto worker = workers_->WithPid(peer.worker);
  if (!worker) return OnMessageOfAnother(peer, message);
  const LocalRank local_rank = *worker;
  workers_->Hear(local_rank, peer.process, message, now);
  std::visit(
      Overloaded{
          [&](const StepMsg& step) {
            history_.clock.StepMade(local_rank, now);
            history_.start_watch->OnAtWork(local_rank);
            standbys_->Feed(StandbyPool::WorkerStepped{local_rank});
            Feed(Supervisor::StepReported{local_rank, step.step});
          },
          [&](const SecretMsg&) { workers_->HandOverSecret(local_rank); },
          [&](const ErrorMsg& error) {
            Feed(Supervisor::ErrorReported{local_rank, error.kind, error.text});
          },
          [&](const CheckpointMsg& checkpoint) { OnCheckpoint(local_rank, checkpoint); },
          [&](const CheckpointFailedMsg& failed) {
            Feed(Supervisor::CheckpointFailureReported{local_rank, failed.step, failed.failures,
                                                       failed.reason});
          },
          [&](const CheckpointDamagedMsg& damaged) {
            Feed(Supervisor::CheckpointDamageReported{local_rank, damaged.step, damaged.text});
          },
          [&](const SnapshotMsg& snapshot) { OnSnapshot(local_rank, snapshot); },
          [&](const SnapshotFailedMsg&) { usage_->OnSnapshotFailed(); },
          [&](const SavedMsg& saved) { usage_->OnSaved(saved); },
          [&](const ReadyMsg&) {
            history_.clock.PhaseBegan(local_rank, "ready", now);
            history_.start_watch->OnAtWork(local_rank);
            Feed(Supervisor::WorkerSpoke{local_rank});
          },
          [&](const PhaseMsg& phase) { OnPhase(local_rank, phase, now); },
          [&](const TellsMsg&) {
            Feed(Supervisor::WorkerSpoke{local_rank, false, false});
          },
          [&](const SavesMsg& told) {
            Feed(Supervisor::WorkerSaves{local_rank, told.saves});
          },
          [&](const StragglerMsg& straggler) {
            watch_->OnStraggler(straggler);
            Feed(Supervisor::WorkerSpoke{local_rank});
          },
          [&](const ComparesMsg&) { watch_->OnCompares(); },
          [&](const StaysMsg&) { Feed(Supervisor::WorkerStays{local_rank}); },
          [&](const StoreElsewhereMsg& elsewhere) {
            Feed(Supervisor::StoreSoughtElsewhere{elsewhere.where});
          },
          [&](const StandbyMsg& standby) { OnStandby(local_rank, standby); },
          ForOthers{},
      },
      message);
}

void Agent::OnPhase(LocalRank local_rank, const PhaseMsg& phase, TimePoint now) {
  history_.clock.PhaseBegan(local_rank, phase.name, now);
  const bool hears = control::IsPhaseOfTheLibrary(phase.name);
  Feed(Supervisor::WorkerSpoke{local_rank, phase.name == control::kPhaseRestore, hears});
}

// The worker says that its program can be a standby, or that it has left its generation and waits.
void Agent::OnStandby(LocalRank local_rank, const StandbyMsg& standby) {
  if (standby.waiting) {
    if (workers_->LetStay(local_rank, *standbys_)) Feed(Supervisor::WorkerLeft{local_rank});
    return;
  }
  standbys_->Feed(StandbyPool::WorkerCanStandBy{});
  Feed(Supervisor::WorkerCanStandBy{});
}

void Agent::OnCheckpoint(LocalRank local_rank, const CheckpointMsg& checkpoint) {
  checkpoints_.OnCheckpoint(workers_->generation(), checkpoint.step, checkpoint.path);
  Feed(Supervisor::CheckpointReported{local_rank, checkpoint.step});
}

void Agent::OnSnapshot(LocalRank local_rank, const SnapshotMsg& snapshot) {
  checkpoints_.OnSnapshot(workers_->generation(), snapshot.step);
  Feed(Supervisor::WorkerSpoke{local_rank, /*checkpoints=*/true});
}

void Agent::OnMessageOfAnother(const ControlPeer& peer, const ControlMessage& message) {
  standbys_->Hear(peer.worker, message);
  const auto* const elsewhere = std::get_if<StoreElsewhereMsg>(&message);
  if (elsewhere != nullptr) Feed(Supervisor::StoreSoughtElsewhere{elsewhere->where});
  if (std::holds_alternative<StepMsg>(message)) watch_->OnStepOfNobody(peer.process);
}

void Agent::OnRendezvousEvent(const RendezvousClient::Event& event) {
  std::visit(Overloaded{
                 [this](const RendezvousClient::Opened&) { Feed(Supervisor::SessionOpened{}); },
                 [this](const RendezvousClient::Received& received) {
                   if (const auto* const order = std::get_if<LogOrder>(&received.message)) {
                     return run_files_.logs().Perform(
                         received.header, *order,
                         [this](const Header& header, const LogPiece& piece) {
                           client_->Send(header, piece);
                         });
                   }
                   Feed(Supervisor::Received{received.header, received.message});
                 },
                 [this](const RendezvousClient::Lost& lost) {
                   run_files_.logs().OnSessionLost();
                   Feed(Supervisor::SessionLost{lost.reason, lost.refused, lost.attempt_started_at,
                                                lost.denied, lost.useless});
                 },
             },
             event);
}

}  // namespace ddprun
