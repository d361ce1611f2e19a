#include "launcher/agent/agent.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/agent/process_facts.h"
#include "launcher/agent/worker_postmortem.h"
#include "launcher/config/command_line_program.h"
#include "launcher/config/job_spec_of.h"
#include "launcher/config/values.h"
#include "launcher/log.h"
#include "launcher/os/file_util.h"
#include "launcher/python/python_path.h"
#include "launcher/python/standby_source.h"
#include "launcher/stacks/take_stacks.h"
#include "launcher/text/error_file.h"
#include "launcher/text/hang_text.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/limits.h"
#include "rendezvous/core/words.h"
#include "worker/contract/control.h"
#include "worker/contract/overloaded.h"

namespace ddprun {
namespace {

// At the end of the job: for log files on a slow disk, and for a terminal that does not keep up.
constexpr std::chrono::seconds kFileFlushTimeout{30};
constexpr std::chrono::seconds kConsoleFlushTimeout{2};
// At the end of the job, to release the folder of checkpoints: whoever comes next waits otherwise.
constexpr std::chrono::seconds kReleaseLimit{1};
// A folder of checkpoints that has not answered for so long is worth a line.
constexpr std::chrono::seconds kScanWarning{1};
// Where no worker has told anything for this long, the log says that hangs are not noticed.
constexpr std::chrono::seconds kSilence{60};
// For what a worker that has failed left in its error file: long for a disk, short beside a lease.
constexpr std::chrono::milliseconds kErrorFileLimit{500};
// Where the disk of the log files is full when workers start: as for their log files, and then for
// so long that somebody can make room.
constexpr std::chrono::milliseconds kFirstFolderRetry{100};
constexpr std::chrono::milliseconds kLastFolderRetry{5000};
constexpr std::chrono::minutes kFolderLimit{2};
// For the stacks of this node's workers. Shorter than the 5 s that the rendezvous waits for them.
constexpr std::chrono::seconds kStacksLimit{4};
constexpr std::size_t kMostTreeLines = 40;  // on the console
constexpr const char* kStacksText = "stacks.txt";
constexpr const char* kStacksJson = "stacks.json";

// The configuration has checked the name.
int SignalNamed(const std::string& name) {
  int signo = 1;
  while (signo < NSIG && SignalName(signo) != name) ++signo;
  return signo;
}

// People may have opened MASTER_PORT alone.
std::string HintOfStaticMode(const RendezvousConfig& rendezvous) {
  const std::string next = FormatEndpoint({rendezvous.master_addr, rendezvous.master_port + 1});
  if (rendezvous.master_port == 0 || rendezvous.endpoint != next) return "";
  return absl::StrCat("in static mode every node must reach two ports, ", rendezvous.master_port,
                      " (MASTER_PORT) and ", rendezvous.master_port + 1, " (the rendezvous)");
}

SupervisorOptions MakeSupervisorOptions(const Agent::Options& options) {
  const JobConfig& config = options.config;
  SupervisorOptions supervisor;
  supervisor.job = config.rendezvous.id;
  supervisor.requeue_number = config.rendezvous.requeue_number;
  supervisor.agent_id = options.agent_id;
  supervisor.spec = JobSpecOf(config);
  supervisor.node = {options.host, options.address, config.nproc_per_node};
  if (config.rendezvous.node_rank >= 0) {
    supervisor.node.requested_rank = NodeRank{config.rendezvous.node_rank};
  }
  supervisor.program = ProgramOf(config.command, config.role);
  supervisor.why_ineligible = options.why_ineligible;
  supervisor.stop_grace = config.stop_grace;
  supervisor.hang_signal = SignalNamed(config.restart.hang.signal);
  supervisor.leases = !config.standalone();
  if (!config.standalone()) {
    supervisor.rendezvous = absl::StrCat("the rendezvous at ", config.rendezvous.endpoint);
    supervisor.unreachable_hint = HintOfStaticMode(config.rendezvous);
  }
  supervisor.connect_timeout = config.rendezvous.connect_timeout;
  supervisor.daemon_grace = config.rendezvous.daemon_grace;
  return supervisor;
}

// The command cannot be executed, however often it is tried.
bool IsPermanent(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
         absl::IsPermissionDenied(status);
}

// As a shell would exit for a command that it cannot start.
int SpawnExitCode(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsInvalidArgument(status) ? kExitNotFound
                                                                     : kExitCannotExecute;
}

WriterThread::Options WriterOptions(const LogsConfig& logs) {
  WriterThread::Options options;
  if (logs.when_full == "wait") options.when_full = WriterThread::WhenFull::kWait;
  options.max_file_bytes = static_cast<std::uint64_t>(logs.max_size);
  return options;
}

}  // namespace

Agent::Agent(Options options, EventLoop* loop, ProcessRunner* runner, RendezvousClient* client,
             Console console, RunDirectory* run)
    : options_(std::move(options)),
      loop_(loop),
      runner_(runner),
      client_(client),
      console_(std::move(console)),
      run_(run),
      supervisor_(MakeSupervisorOptions(options_)),
      restarts_{RestartClock(options_.config.nproc_per_node), nullptr, {}, {}},
      told_{.stragglers = {},
            .still = StillWatch(options_.config.rendezvous.heartbeat),
            .said_silent = options_.config.restart.hang.timeout == "off",
            .stack_taker = OffLoop(loop, "ddprun-stacks")},
      disk_(loop, "ddprun-disk"),
      files_(
          loop, [](const absl::Status& status) { LogWarning(status.message()); },
          WriterOptions(options_.config.logs)) {}

Agent::~Agent() { client_->Close(); }

absl::StatusOr<Verdict> Agent::Run() {
  auto control = ControlSocket::Listen(
      loop_, run_->sockets(),
      [this](pid_t peer, const ControlMessage& message) { OnControlMessage(peer, message); },
      [](pid_t peer, const std::string& reason) {
        LogWarning(absl::StrCat("control socket, process ", peer, ": ", reason));
      });
  if (!control.ok()) return control.status();
  control_ = *std::move(control);
  workers_ = std::make_unique<NodeWorkers>(
      options_.config.nproc_per_node,
      WorkerLogs::Options{options_.config.logs, options_.config.role,
                          PrefixTemplate(options_.environ)},
      loop_, runner_, &files_, console_, control_.get(), WorkerEvents());
  restarts_.start_watch = std::make_unique<StartWatch>(
      loop_, options_.config.nproc_per_node, [this] { return workers_->Pids(); },
      [this](Generation generation, Duration took) {
        Feed(Supervisor::StartMeasured{generation, took});
      });
  AddPythonModule();
  standbys_ = std::make_unique<Standbys>(StandbyOptions(), loop_, runner_, &files_, control_.get(),
                                         &disk_, run_);

  WatchOwner();
  Feed(Supervisor::AgentStarted{});
  client_->Open([this](RendezvousClient::Event event) {
    loop_->Post([this, event = std::move(event)] { OnRendezvousEvent(event); });
  });
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
  restarts_.clock.Close();
  TakeRestartTimes();
  verdict_->restart_times.assign(restarts_.times.begin(), restarts_.times.end());
  verdict_->restore = restarts_.restore;
  verdict_->hang = told_.hang;
  if (verdict_->root_cause) verdict_->error_file = told_.error_files.Of(*verdict_->root_cause);
  return *verdict_;
}

void Agent::OnSignal(int signo) {
  Feed(Supervisor::SignalReceived{signo, /*durable=*/!held_.states.files().empty()});
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
  const bool was_running = supervisor_.state() == SupervisorState::kRunning;
  const auto now = EventLoop::Clock::now();
  std::vector<Supervisor::Action> actions = supervisor_.Step(event, now);
  if (was_running && supervisor_.state() != SupervisorState::kRunning) {
    restarts_.clock.GenerationEnded(now);
    restarts_.start_watch->End();
    standbys_->Feed(StandbyPool::GenerationEnded{});
  }
  std::move(actions.begin(), actions.end(), std::back_inserter(actions_));
  PerformQueued();
  if (const auto times = TakeRestartTimes()) Feed(Supervisor::RestartMeasured{*times});
}

// In the order in which they were decided, also when performing one leads to the next decision.
void Agent::PerformQueued() {
  if (performing_) return;
  performing_ = true;
  while (!actions_.empty() && !verdict_) {
    Supervisor::Action action = std::move(actions_.front());
    actions_.pop_front();
    std::visit([this](auto& chosen) { Perform(chosen); }, action);
  }
  performing_ = false;
  ArmDeadline();
}

void Agent::WatchOwner() {
  const JobConfig& config = options_.config;
  if (!config.place.has_later_lives || config.checkpoint_dir.empty()) return;
  owner_watch_.emplace(loop_,
                       OwnerWatch::Options{config.checkpoint_dir, config.rendezvous.id,
                                           config.rendezvous.requeue_number},
                       [this](std::string why) { Feed(Supervisor::Superseded{std::move(why)}); });
}

void Agent::ArmDeadline() {
  loop_->SetDeadline(supervisor_.NextDeadline(), [this] { Feed(Supervisor::Tick{}); });
}

// ---- acting ----

void Agent::Perform(Supervisor::Send& send) {
  held_.states.FillIn(&send.message);
  LookAtProgress(&send.message);
  AddCalls(&send);
  client_->Send(send.header, send.message);
}

// The progress pages of a generation are there until the next one starts, also those of the dead.
void Agent::AddCalls(Supervisor::Send* send) {
  auto* const stopped = std::get_if<Stopped>(&send->message);
  if (stopped == nullptr || workers_->progress().generation() != send->header.generation) return;
  stopped->calls = LastCallsOf(workers_->progress().Read(EventLoop::Clock::now()));
}

void Agent::LookAtProgress(AgentMessage* message) {
  auto* const heartbeat = std::get_if<Heartbeat>(message);
  if (heartbeat == nullptr || supervisor_.state() != SupervisorState::kRunning) return;
  const auto now = EventLoop::Clock::now();
  std::vector<SeenWorker> seen;
  for (const WorkerProgress& progress : workers_->progress().Read(now)) {
    const auto pid = workers_->PidOf(progress.local_rank);
    if (!pid) continue;
    if (auto worker = SeenWorkerOf(progress, *pid)) seen.push_back(*std::move(worker));
  }
  heartbeat->progress = told_.still.Look(seen, now, [this](int pid) { return FactsOf(pid); });
  told_.urgency = heartbeat->progress->still < NodeProgress::kDetailsAfter
                      ? stacks::StackUrgency::kBesideTraining
                      : stacks::StackUrgency::kAtOnce;
}

void Agent::AwaitFirstWord() {
  loop_->CancelTimer(std::exchange(told_.silence, 0));
  if (!told_.of_rank_0 || told_.said_silent) return;
  told_.silence = loop_->AddTimer(EventLoop::Clock::now() + kSilence, [this] {
    told_.silence = 0;
    const auto workers = workers_->progress().Read(EventLoop::Clock::now());
    const bool told = std::any_of(workers.begin(), workers.end(), [](const auto& worker) {
      return worker.source != ProgressSource::kNone;
    });
    if (told || supervisor_.state() != SupervisorState::kRunning) return;
    told_.said_silent = true;
    LogInfo(absl::StrCat("no worker has told a step for ", Seconds(kSilence),
                         ": if this job hangs, ddprun does not notice. Python: --auto-step, or "
                         "ddprun.step(n) in the script; other programs: STEP=n (docs/hangs.md)"));
  });
}

// While the stacks of a worker are copied, the kernel says that a debugger has it. So the facts
// from before are used, but not for ever: copying may block.
ProcessFacts Agent::FactsOf(int pid) {
  const auto known = told_.facts.find(pid);
  const bool copying = told_.taking_stacks > 0 && EventLoop::Clock::now() < told_.copying_until;
  if (copying && known != told_.facts.end()) return known->second;
  return told_.facts[pid] = ReadProcessFacts(pid);
}

void Agent::Perform(const Supervisor::ClearNode&) {
  workers_->Clear([this](const absl::StatusOr<std::vector<StuckProcess>>& stuck) {
    if (!stuck.ok()) return OnWorkersLost(stuck.status());
    restarts_.clock.NoWorkerLeft(EventLoop::Clock::now());
    Feed(Supervisor::NodeCleared{*stuck});
  });
}

void Agent::Perform(const Supervisor::ScanStates&) {
  const JobConfig& config = options_.config;
  ScanRequest request{config.rendezvous.id,         config.checkpoint_dir,
                      held_.states.files(),         config.rendezvous.requeue_number,
                      config.checkpoint.start_anew, held_.before};
  if (request.folder.empty() && request.named.empty()) return Feed(Supervisor::StatesFound{});
  EndScan();
  held_.scan_warning = loop_->AddTimer(EventLoop::Clock::now() + kScanWarning, [this] {
    const JobConfig& config = options_.config;
    LogWarning(absl::StrCat("the folder of checkpoints has not answered for ",
                            Seconds(kScanWarning), config.checkpoint_dir.empty() ? "" : ": ",
                            config.checkpoint_dir,
                            "; where it may hold the newest state, the job waits for it, at most ",
                            Seconds(config.rendezvous.join_timeout)));
  });
  held_.scan.emplace(loop_, std::move(request), [this](ScanResult result) {
    EndScan();
    OnScanned(std::move(result));
    Feed(Supervisor::StatesFound{});
  });
}

// What a scan in progress finds is not heard any more.
void Agent::EndScan() {
  loop_->CancelTimer(std::exchange(held_.scan_warning, 0));
  held_.scan.reset();
}

void Agent::OnScanned(ScanResult result) {
  for (const std::string& problem : result.problems) {
    if (held_.problems.insert(problem).second) LogWarning(problem);
  }
  if (options_.config.checkpoint.start_anew && !held_.before) {
    held_.before = std::move(result.in_folder);
  }
  held_.states.OnFound(std::move(result.files));
}

void Agent::Perform(const Supervisor::OfferPort& offer) {
  Feed(Supervisor::PortOffered{port_.Offer(offer.workers_running)});
}

void Agent::Perform(const Supervisor::EndStandbys&) { standbys_->Feed(StandbyPool::JobEnded{}); }

void Agent::Perform(const Supervisor::PrepareFolders& prepare) {
  MakeFolders(prepare, EventLoop::Clock::now() + kFolderLimit, kFirstFolderRetry);
}

void Agent::MakeFolders(const Supervisor::PrepareFolders& prepare,
                        EventLoop::Clock::time_point give_up, std::chrono::milliseconds pause) {
  disk_.Run(
      [path = run_->path(), prepare, workers = options_.config.nproc_per_node] {
        return MakeWorkerFolders(path, prepare.generation, prepare.first_rank, workers);
      },
      [this, prepare, give_up, pause](const MadeFolders& made) {
        const auto next = EventLoop::Clock::now() + pause;
        if (!made.full || next > give_up) {
          Feed(Supervisor::FoldersReady{prepare.generation, made.local_rank, made.error});
          return;
        }
        if (pause == kFirstFolderRetry) {
          LogWarning(absl::StrCat(made.error,
                                  "; the workers of this node start when there is room; ",
                                  "without any for ", kFolderLimit.count(), " min they fail"));
        }
        loop_->AddTimer(next, [this, prepare, give_up, pause] {
          MakeFolders(prepare, give_up, std::min(2 * pause, kLastFolderRetry));
        });
      });
}

void Agent::Perform(const Supervisor::ReadErrorFile& read) {
  const auto limit = loop_->AddTimer(EventLoop::Clock::now() + kErrorFileLimit, [this, read] {
    Feed(Supervisor::ErrorFileRead{read.generation, read.local_rank, ""});
  });
  disk_.Run(
      [path = run_->ErrorFile(read.generation, read.local_rank)] { return ReadErrorFile(path); },
      [this, read, limit](const std::string& content) {
        loop_->CancelTimer(limit);
        told_.error_files.Add(read.generation, read.local_rank, content);
        Feed(Supervisor::ErrorFileRead{read.generation, read.local_rank,
                                       ParseErrorFile(content).message});
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
  port_.Use();
  restarts_.restore = assignment.restore;
  EndScan();  // what it would find is older than what the workers tell
  if (assignment.restore) held_.states.OnStarted(*assignment.restore);
  restarts_.clock.GenerationStarted(spawn.generation, EventLoop::Clock::now());
  told_.stragglers.Clear();
  told_.still.Begin(EventLoop::Clock::now());
  told_.of_rank_0 = assignment.first_rank.value == 0;
  told_.facts.clear();
  told_.error_files.Begin(spawn.generation, assignment.first_rank);
  workers_->BeginGeneration(spawn.generation, assignment.secret, WillTellSteps());
  AwaitFirstWord();
  restarts_.start_watch->Begin(spawn.generation, assignment.master_port);
  absl::Status status;
  for (int i = 0; i < options_.config.nproc_per_node; ++i) {
    if (status.ok()) status = Start(spawn, LocalRank{i});
    if (!status.ok()) FailSpawn(LocalRank{i}, status);  // the later ones are not tried
  }
  for (int i = 0; i < options_.config.nproc_per_node; ++i) {
    const auto pid = workers_->PidOf(LocalRank{i});
    if (!pid || workers_->IsStarting(LocalRank{i})) continue;
    Feed(Supervisor::WorkerSpawned{LocalRank{i}, *pid});  // it was a standby
  }
  if (WillTellSteps()) Feed(Supervisor::WorkerSpoke{LocalRank{0}, false, /*listens=*/false});
  LookWhetherAllRun();
}

bool Agent::WillTellSteps() const {
  return options_.config.program.auto_step && !run_->python_path().empty();
}

void Agent::LookWhetherAllRun() {
  if (workers_->AnyIsStarting() || supervisor_.state() != SupervisorState::kRunning) return;
  restarts_.clock.WorkersSpawned(workers_->warm_count(), EventLoop::Clock::now());
  standbys_->Feed(StandbyPool::GenerationStarted{});
}

void Agent::FailSpawn(LocalRank local_rank, const absl::Status& status) {
  Feed(Supervisor::SpawnFailed{local_rank, SpawnExitCode(status), std::string(status.message()),
                               IsPermanent(status)});
}

NodeWorkers::Events Agent::WorkerEvents() {
  return {
      .started =
          [this](LocalRank local_rank, pid_t pid) {
            Feed(Supervisor::WorkerSpawned{local_rank, pid});
            LookWhetherAllRun();
          },
      .not_started = [this](LocalRank local_rank,
                            const absl::Status& why) { FailSpawn(local_rank, why); },
      .ended = [this](const NodeWorkers::Ended& ended) { OnWorkerEnded(ended); },
      .lost = [this](const absl::Status& why) { OnWorkersLost(why); },
      .stuck_ended = [this](pid_t pid) { Feed(Supervisor::StuckProcessEnded{pid}); },
  };
}

WorkerPlace Agent::Place(LocalRank local_rank) const {
  WorkerPlace place;
  place.job = options_.config.rendezvous.id;
  place.role = options_.config.role;
  place.requeue_number = options_.config.rendezvous.requeue_number;
  place.local_rank = local_rank;
  place.virtual_local_rank = options_.config.program.virtual_local_rank;
  place.local_world_size = options_.config.nproc_per_node;
  place.run_dir = run_->path();
  place.checkpoint_dir = options_.config.checkpoint_dir;
  place.take_folder = options_.config.checkpoint.take_folder;
  place.snapshot_dir = run_->snapshots();
  place.control_socket = control_->path();
  place.start_anew = options_.config.checkpoint.start_anew;
  place.hang_limit = std::chrono::duration_cast<std::chrono::milliseconds>(
      LongestHangLimit(JobSpecOf(options_.config)));
  place.state_timeout = options_.config.checkpoint.state_timeout;
  return place;
}

void Agent::AddPythonModule() {
  if (!RunsSitecustomize(options_.config.command)) return;
  const bool auto_step = options_.config.program.auto_step;
  if (const auto added = run_->AddPythonFolder(auto_step); !added.ok()) {
    LogWarning(absl::StrCat("Python workers have no module ddprun",
                            auto_step ? ", and --auto-step has no effect: " : ": ",
                            added.message()));
  }
}

Standbys::Options Agent::StandbyOptions() const {
  Standbys::Options standbys;
  standbys.pool.wanted = options_.config.restart.warm;
  standbys.pool.workers = options_.config.nproc_per_node;
  standbys.pool.waits_in = "ddp::init()";
  standbys.python_path = run_->python_path();
  std::vector<std::string> command = options_.config.command;
  if (!options_.config.restart.preload.empty()) {
    const std::string program = run_->sockets() + "/standby.py";
    if (const auto written = WriteFileAtomic(program, kPythonStandby); !written.ok()) {
      LogWarning(absl::StrCat("there will be no warm standbys: ", written.message()));
      standbys.pool.wanted = 0;
    }
    // The configuration has checked that there is a program.
    const auto at = command.begin() + static_cast<std::ptrdiff_t>(*FindPythonProgram(command));
    command.insert(at, {program, absl::StrJoin(options_.config.restart.preload, ",")});
    standbys.pool.always_able = true;
    standbys.pool.waits_in = "the end of its imports";
  }
  standbys.request = [this, command](LocalRank local_rank) {
    SpawnRequest request;
    request.argv = WorkerArguments(command, local_rank);
    request.env = StandbyEnvironment(Place(local_rank), options_.environ, options_.config.env);
    PutOnPythonPath(run_->python_path(), &request.env);
    return request;
  };
  return standbys;
}

absl::Status Agent::Start(const Supervisor::SpawnWorkers& spawn, LocalRank local_rank) {
  WorkerPlace place = Place(local_rank);
  place.generation = spawn.generation;
  place.assignment = spawn.assignment;
  place.error_file = run_->ErrorFile(spawn.generation, local_rank);
  SpawnRequest request;
  request.argv = WorkerArguments(options_.config.command, local_rank);
  request.env = WorkerEnvironment(place, options_.environ, options_.config.env);
  PutOnPythonPath(run_->python_path(), &request.env);
  return workers_->Start(local_rank, place.rank(), request,
                         run_->WorkerFolder(spawn.generation, local_rank), standbys_.get());
}

void Agent::Perform(const Supervisor::SignalWorkers& signal) {
  for (const LocalRank local_rank : signal.local_ranks) workers_->Signal(local_rank, signal.signo);
}

void Agent::Perform(const Supervisor::AskWorkersToSave& ask) {
  for (const LocalRank local_rank : ask.local_ranks) workers_->AskToSave(local_rank);
}

void Agent::Perform(const Supervisor::TakeWorkerStacks& take) {
  std::vector<stacks::StackTarget> targets;
  for (const auto& worker : take.workers) {
    targets.push_back({static_cast<std::uint32_t>(worker.rank.value), worker.pid});
  }
  ++told_.taking_stacks;
  const auto deadline = EventLoop::Clock::now() + kStacksLimit;
  told_.copying_until = deadline + std::chrono::seconds(1);
  told_.stack_taker.Run(
      [targets = std::move(targets), deadline, urgency = told_.urgency] {
        return stacks::TakeStacks(targets, deadline, urgency).tree.Encode(kMaxSentStackTreeBytes);
      },
      [this, generation = take.generation, request = take.request](const EncodedStackTree& tree) {
        --told_.taking_stacks;
        Feed(Supervisor::WorkerStacksTaken{generation, request, tree});
      });
}

void Agent::Perform(const Supervisor::ShowHangStacks& show) {
  told_.hang = show.stacks;
  for (const std::string& line : show.stacks.verdict) LogInfo(line);
  for (const std::string& line : HangTreeLines(show.stacks, kMostTreeLines)) LogInfo(line);
  LogInfo(absl::StrCat("the stacks of all threads are in ", run_->path(), "/", kStacksText));
  LogInfo(show.stacks.next);
  disk_.Run([folder = run_->path(), job = options_.config.rendezvous.id, show] {
    for (const auto& [name, content] :
         {std::pair(kStacksText, HangFileText(show.stacks)),
          std::pair(kStacksJson, HangFileJson(show.stacks, job, show.generation))}) {
      const absl::Status written = WriteFileAtomic(absl::StrCat(folder, "/", name), content);
      if (!written.ok()) LogWarning(written.message());
    }
  });
}

void Agent::Perform(const Supervisor::SetFence& fence) { runner_->SetFence(fence.at); }

void Agent::Perform(const Supervisor::Note& note) { LogInfo(note.text); }

void Agent::Perform(const Supervisor::Exit& exit) {
  verdict_ = exit.verdict;
  const bool claimed = exit.claim && exit.claim->run_id != RunId{};
  if (claimed && !options_.config.checkpoint_dir.empty()) return ReleaseClaim(*exit.claim);
  loop_->Quit();
}

void Agent::ReleaseClaim(const Supervisor::FolderClaim& claim) {
  const JobConfig& config = options_.config;
  CheckpointOwner holder{config.rendezvous.id, config.rendezvous.requeue_number,
                         claim.generation.value};
  holder.run = RunIdText(claim.run_id);
  loop_->AddTimer(EventLoop::Clock::now() + kReleaseLimit, [this] { loop_->Quit(); });
  held_.releasing.emplace(loop_, "ddprun-release");
  held_.releasing->Run(
      [folder = config.checkpoint_dir, holder] {
        ReleaseFolder(folder, holder);
        return true;
      },
      [this](bool) { loop_->Quit(); });
}

// ---- what happened ----

void Agent::OnWorkerEnded(const NodeWorkers::Ended& worker) {
  Supervisor::WorkerEnded ended;
  ended.local_rank = worker.local_rank;
  ended.status = worker.status;
  ended.stderr_tail = worker.stderr_tail;
  ended.ended_at_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  ended.oom_killed = ended.status.signal == SIGKILL &&
                     supervisor_.state() == SupervisorState::kRunning &&
                     workers_->WasOomKilled(worker.pid);
  Feed(ended);
}

void Agent::OnWorkersLost(const absl::Status& why) {
  if (verdict_) return;
  workers_->Abandon();
  standbys_->Lose();
  actions_.clear();
  Feed(Supervisor::WorkersLost{std::string(why.message())});
}

std::optional<RestartTimes> Agent::TakeRestartTimes() {
  std::optional<RestartTimes> times = restarts_.clock.Take();
  if (!times) return std::nullopt;
  LogInfo(Describe(*times, options_.config.nproc_per_node));
  restarts_.times.push_back(*times);
  if (restarts_.times.size() > kMaxEarlierCauses) restarts_.times.pop_front();
  return times;
}

void Agent::OnControlMessage(pid_t peer, const ControlMessage& message) {
  const auto now = EventLoop::Clock::now();
  const auto worker = workers_->WithPid(peer);
  if (!worker) return OnStandbyMessage(peer, message);
  const LocalRank local_rank = *worker;
  workers_->Hear(local_rank, message, now);
  std::visit(
      Overloaded{
          [&](const StepMsg& step) {
            restarts_.clock.StepMade(local_rank, now);
            restarts_.start_watch->OnAtWork(local_rank);
            standbys_->Feed(StandbyPool::WorkerStepped{local_rank});
            Feed(Supervisor::StepReported{local_rank, step.step});
          },
          [&](const SecretMsg&) { workers_->HandOverSecret(local_rank); },
          [&](const ErrorMsg& error) {
            Feed(Supervisor::ErrorReported{local_rank, error.kind, error.text});
          },
          [&](const CheckpointMsg& checkpoint) {
            const Header here = supervisor_.header();
            held_.states.OnCheckpoint(here.requeue_number, here.generation, checkpoint.step,
                                      checkpoint.path);
            Feed(Supervisor::CheckpointReported{local_rank, checkpoint.step});
          },
          [&](const CheckpointFailedMsg& failed) {
            Feed(Supervisor::CheckpointFailureReported{local_rank, failed.step, failed.failures,
                                                       failed.reason});
          },
          [&](const CheckpointDamagedMsg& damaged) {
            Feed(Supervisor::CheckpointDamageReported{local_rank, damaged.step, damaged.text});
          },
          [&](const SnapshotMsg& snapshot) {
            const Header here = supervisor_.header();
            held_.states.OnSnapshot(here.requeue_number, here.generation, snapshot.step);
            Feed(Supervisor::WorkerSpoke{local_rank, /*checkpoints=*/true});
          },
          [&](const ReadyMsg&) {
            restarts_.clock.PhaseBegan(local_rank, "ready", now);
            restarts_.start_watch->OnAtWork(local_rank);
            Feed(Supervisor::WorkerSpoke{local_rank});
          },
          [&](const PhaseMsg& phase) {
            restarts_.clock.PhaseBegan(local_rank, phase.name, now);
            const bool hears = control::IsPhaseOfTheLibrary(phase.name);
            Feed(Supervisor::WorkerSpoke{local_rank, phase.name == control::kPhaseRestore, hears});
          },
          [&](const TellsMsg&) {
            Feed(Supervisor::WorkerSpoke{local_rank, false, false});
          },
          [&](const StragglerMsg& straggler) {
            OnStraggler(straggler);
            Feed(Supervisor::WorkerSpoke{local_rank});
          },
          [](const ByeMsg&) {},
          [&](const StandbyMsg& standby) {
            if (!standby.waiting) standbys_->Feed(StandbyPool::WorkerCanStandBy{});
          },
      },
      message);
}

void Agent::OnStandbyMessage(pid_t peer, const ControlMessage& message) {
  const auto* standby = std::get_if<StandbyMsg>(&message);
  if (standby != nullptr && standby->waiting) standbys_->OnWaiting(peer);
}

void Agent::OnStraggler(const StragglerMsg& straggler) {
  const auto news = straggler.ended
                        ? told_.stragglers.Ended(straggler.rank)
                        : told_.stragglers.Told(straggler.rank, straggler.host,
                                                std::chrono::microseconds(straggler.time),
                                                std::chrono::microseconds(straggler.others));
  if (news && straggler.ended) LogInfo(*news);
  if (news && !straggler.ended) LogWarning(*news);
}

void Agent::OnRendezvousEvent(const RendezvousClient::Event& event) {
  std::visit(Overloaded{
                 [this](const RendezvousClient::Opened&) { Feed(Supervisor::SessionOpened{}); },
                 [this](const RendezvousClient::Received& received) {
                   Feed(Supervisor::Received{received.header, received.message});
                 },
                 [this](const RendezvousClient::Lost& lost) {
                   Feed(Supervisor::SessionLost{lost.reason, lost.refused, lost.attempt_started_at,
                                                lost.denied});
                 },
             },
             event);
}

}  // namespace ddprun
