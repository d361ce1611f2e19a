#include "tests/simulation/agent.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/root_cause.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/text.h"
#include "tests/simulation/world.h"
#include "worker/contract/overloaded.h"

namespace ddprun::sim {
namespace {

SupervisorOptions OptionsOf(const World& world, int host, std::uint32_t requeue_number,
                            AgentId agent_id) {
  SupervisorOptions options;
  options.job = "job";
  options.requeue_number = requeue_number;
  options.agent_id = agent_id;
  options.spec = world.plan.spec;
  options.node.host = world.hosts[host]->name;
  options.node.address = options.node.host;
  options.node.worker_count = world.plan.workers_per_host;
  if (world.plan.ranked) options.node.requested_rank = NodeRank{host % world.plan.hosts};
  options.stop_grace = world.plan.stop_grace;
  options.kill_grace = world.plan.kill_grace;
  options.daemon_grace = world.plan.daemon_grace;
  options.connect_timeout = world.plan.connect_timeout;
  return options;
}

}  // namespace

Agent::Agent(World* world, int id, int host, std::uint32_t requeue_number, AgentId agent_id)
    : world_(world),
      id_(id),
      host_(host),
      requeue_number_(requeue_number),
      agent_id_(agent_id),
      supervisor_(OptionsOf(*world, host, requeue_number, agent_id)) {}

std::string Agent::Name() const {
  return absl::StrCat(world_->hosts[host_]->name, "/", agent_id_.value);
}

TimePoint Agent::Now() const { return world_->hosts[host_]->clock.Local(world_->scheduler.now()); }

// ---- the process ----

void Agent::Start() {
  world_->recorder.Line(absl::StrCat(Name(), " starts, requeue number ", requeue_number_));
  Feed(Supervisor::AgentStarted{});
  Connect();
}

void Agent::Kill() {
  if (!alive_) return;
  world_->recorder.Line(Name() + " is killed");
  alive_ = false;
  CloseSession();
  // The guardian: most often at once, in the worst case as late as it promises.
  const Time takes = world_->random.Percent(70) ? world_->random.Wide(1, 50) * kMillisecond
                                                : world_->random.Wide(50, 2000) * kMillisecond;
  world_->scheduler.After(takes, [this] {
    if (!world_->hosts[host_]->powered) return;
    EndWorkers();
    if (AnyStuck()) return;  // it does not say that nothing is left
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (world_->random.Percent(30)) continue;  // lost
      world_->scheduler.After(attempt * 500 * kMillisecond, [this] {
        world_->network.SendOnce(host_, kUp, [this] {
          world_->daemon.Post([this] { world_->daemon.OnAgentGone(agent_id_); });
        });
      });
    }
  });
}

void Agent::PowerOff() {
  if (alive_) world_->recorder.Line(Name() + " loses power");
  alive_ = false;
  LoseWorkers();
  if (session_ == nullptr) return;
  world_->network.Break(
      session_, -1,
      world_->random.Percent(85) ? world_->random.Between(2000, 3000) * kMillisecond : -1);
  session_->agent_open = false;
  session_.reset();
}

void Agent::Stall(Time duration) {
  if (!alive_ || stalled_) return;
  world_->recorder.Line(absl::StrCat(Name(), " is stopped for ", duration / kMillisecond, " ms"));
  stalled_ = true;
  const int stall = ++stalls_;
  if (session_ != nullptr && world_->random.Percent(85)) {
    const Time noticed = world_->random.Between(2000, 3000) * kMillisecond;
    world_->scheduler.After(noticed, [this, stall, session = session_] {
      if (alive_ && stalled_ && stall == stalls_) world_->ServerEndLost(session);
    });
  }
  world_->scheduler.After(duration, [this] {
    stalled_ = false;
    if (!alive_) return;
    world_->recorder.Line(Name() + " continues");
    RunInbox();
  });
}

void Agent::Signal(int signo) { Feed(Supervisor::SignalReceived{signo}); }

void Agent::Post(std::function<void()> task) {
  if (!alive_) return;
  if (stalled_ || !inbox_.empty()) {
    inbox_.push_back(std::move(task));
  } else {
    task();
  }
}

void Agent::RunInbox() {
  while (alive_ && !stalled_ && !inbox_.empty()) {
    const std::function<void()> task = std::move(inbox_.front());
    inbox_.pop_front();
    task();
  }
}

void Agent::Feed(Supervisor::Event event) {
  Post([this, event = std::move(event)] { Step(event); });
}

void Agent::Step(const Supervisor::Event& event) {
  if (!alive_) return;
  const SupervisorState before = supervisor_.state();
  supervisor_.Step(event, Now());
  if (supervisor_.state() != before) {
    if (supervisor_.state() == SupervisorState::kFenced) ++world_->result.fences;
    if (world_->recorder.tracing()) {
      world_->recorder.Line(absl::StrCat("  ", Name(), ": ", ToString(before), " -> ",
                                         ToString(supervisor_.state())));
    }
  }
  PerformDecided();
  ScheduleTick();
}

void Agent::PerformDecided() {
  if (performing_) return;
  performing_ = true;
  while (alive_) {
    const std::optional<Supervisor::Action> action = supervisor_.NextAction(Now());
    if (!action) break;
    Perform(*action);
  }
  performing_ = false;
}

void Agent::ScheduleTick() {
  if (!alive_) return;
  const std::optional<TimePoint> deadline = supervisor_.NextDeadline();
  if (!deadline) return;
  const Time at = std::max(world_->scheduler.now(), world_->hosts[host_]->clock.True(*deadline));
  if (tick_at_ >= 0 && tick_at_ <= at) return;
  tick_at_ = at + world_->random.Between(0, 2000) * 1000;
  world_->scheduler.At(tick_at_, [this, at = tick_at_] {
    if (tick_at_ != at) return;
    Post([this] {
      tick_at_ = -1;
      Step(Supervisor::Tick{});
    });
  });
}

// ---- what the Supervisor wants ----

void Agent::Perform(const Supervisor::Action& action) {
  std::visit(
      Overloaded{
          [&](const Supervisor::Send& send) { Transmit(send.header, send.message); },
          [&](const Supervisor::SendHeartbeat& send) { Transmit(send.header, send.heartbeat); },
          [&](const Supervisor::ClearNode&) { Feed(Clear()); },
          [&](const Supervisor::ScanStates&) { Scan(); },
          [&](const Supervisor::OfferPort&) { Feed(Supervisor::PortOffered{}); },
          [&](const Supervisor::OpenStore& open) {
            Feed(Supervisor::StoreOpened{open.generation});
          },
          [&](const Supervisor::CloseStore&) {},
          [&](const Supervisor::EndStandbys&) {},
          [&](const Supervisor::PrepareFolders& prepare) {
            AfterTheDisk(Supervisor::FoldersReady{prepare.generation, LocalRank{0}, ""});
          },
          [&](const Supervisor::SpawnWorkers& spawn) { Perform(spawn); },
          [&](const Supervisor::AllWorkersRun&) {},
          [&](const Supervisor::GenerationEnded&) { StopStarting(); },
          [&](const Supervisor::ReadErrorFile& read) {
            AfterTheDisk(Supervisor::ErrorFileRead{read.generation, read.local_rank, ""});
          },
          [&](const Supervisor::SignalWorkers& signal) {
            for (const LocalRank local : signal.local_ranks) {
              Signal(workers_[local.value], signal.signo);
            }
          },
          [&](const Supervisor::AskWorkersToSave& ask) {
            for (const LocalRank local : ask.local_ranks) {
              world_->training.AskToSave(workers_[local.value]->worker);
            }
          },
          [&](const Supervisor::AskWorkersToLeave& ask) { Perform(ask); },
          [&](const Supervisor::TakeWorkerStacks& take) {
            AfterTheDisk(Supervisor::WorkerStacksTaken{take.generation, take.request, {}});
          },
          [&](const Supervisor::ShowHangStacks&) {},
          [&](const Supervisor::SetFence& fence) { Perform(fence); },
          [&](const Supervisor::Note& note) {
            world_->recorder.Line(absl::StrCat("  ", Name(), ": ", note.text));
          },
          [&](const Supervisor::Exit& exit) { Exit(exit.verdict); },
      },
      action);
}

void Agent::Transmit(const Header& header, AgentMessage message) {
  if (session_ == nullptr) return;
  if (world_->plan.states) FillIn(&message);
  const auto deliver = [this, session = session_, header, message] {
    if (!session->server_open) {  // nobody is there: the other machine says so
      if (!session->broken && (world_->daemon.up() || world_->daemon.refuses())) {
        world_->network.SendOnce(host_, kDown,
                                 [this, session] { world_->AgentEndLost(session, "reset"); });
      }
      return;
    }
    world_->daemon.Post(
        [this, session, header, message] { world_->daemon.OnMessage(session, header, message); });
  };
  const bool twice = world_->plan.duplicates && !std::holds_alternative<Join>(message) &&
                     world_->random.Percent(5);
  if (!twice) {
    world_->network.Send(session_, kUp, deliver);
    return;
  }
  const Time later = world_->random.Between(0, 300) * kMillisecond;
  world_->network.Send(session_, kUp, [this, deliver, later] {
    deliver();
    world_->scheduler.After(later, deliver);
  });
}

void Agent::Perform(const Supervisor::AskWorkersToLeave& ask) {
  for (const LocalRank local : ask.local_ranks) {
    const int worker = workers_[local.value]->worker;
    if (world_->bug == Bug::kLeftTooEarly) {
      OnWorkerLeft(worker, local);
    } else {
      world_->training.AskToLeave(worker);
    }
  }
}

void Agent::FillIn(AgentMessage* message) {
  states_.FillIn(message);
  if (world_->bug != Bug::kTimelineForgotten || world_->daemon.machine() == nullptr) return;
  std::vector<SavedState>* states = nullptr;
  if (auto* said = std::get_if<Join>(message)) states = &said->states;
  if (auto* said = std::get_if<Stopped>(message)) states = &said->states;
  if (auto* said = std::get_if<HeldStates>(message)) states = &said->states;
  if (states == nullptr) return;
  for (SavedState& state : *states) state.generation = world_->daemon.machine()->generation();
}

void Agent::OnSaved(LocalRank local_rank, const SavedState& state, const std::string& path) {
  Post([this, local_rank, state, path] {
    if (state.tier == Tier::kMemory) {
      states_.OnSnapshot(state.requeue_number, state.generation, state.step);
      Step(Supervisor::WorkerSpoke{local_rank, true});
    } else {
      states_.OnCheckpoint(state.requeue_number, state.generation, state.step, path);
      Step(Supervisor::CheckpointReported{local_rank, state.step});
    }
  });
}

void Agent::OnFailedToSave(LocalRank local_rank, std::int64_t step, int failures) {
  ++failed_checkpoints_;
  Feed(Supervisor::CheckpointFailureReported{local_rank, step, failures, "disk full"});
}

// At once, or when a file server answers again. One after the other.
void Agent::AfterTheDisk(Supervisor::Event event) {
  const bool slow = !world_->plan.benign && world_->random.Percent(3);
  const Time takes = slow ? world_->random.Wide(100, 5000) * kMillisecond
                          : world_->random.Wide(1, 20) * kMillisecond / 10;
  disk_free_at_ = std::max(disk_free_at_, world_->scheduler.now()) + takes;
  world_->scheduler.At(disk_free_at_, [this, event = std::move(event)] { Feed(event); });
}

// At once, or when a file server answers again: with what was there when it was asked. Not heard
// once workers were started.
void Agent::Scan() {
  const bool slow = !world_->plan.benign && world_->random.Percent(3);
  const Time takes = slow ? world_->random.Wide(10, 20'000) * kMillisecond
                          : world_->random.Wide(1, 20) * kMillisecond / 10;
  world_->scheduler.After(takes, [this, scan = ++scan_, found = world_->Disk(host_)] {
    Post([this, scan, found] {
      if (scan != scan_) return;
      if (world_->plan.states) states_.OnFound(found);
      Step(Supervisor::StatesFound{});
    });
  });
}

// All at once; each is there when its program has been read, in any order.
void Agent::Perform(const Supervisor::SpawnWorkers& spawn) {
  ++scan_;
  if (spawn.assignment.restore) states_.OnStarted(*spawn.assignment.restore);
  workers_.clear();
  for (int i = 0; i < world_->plan.workers_per_host; ++i) {
    workers_.push_back(std::make_shared<Process>());
    const Time takes = world_->plan.benign || world_->random.Percent(95)
                           ? world_->random.Wide(1, 30) * kMillisecond
                           : world_->random.Wide(30, 10'000) * kMillisecond;
    world_->scheduler.After(takes, [this, process = workers_.back(), i, spawn, life = life_] {
      OnExecuted(process, LocalRank{i}, spawn, life);
    });
  }
  if (fenced_) EndWorkers();  // the guardian starts nothing after the fence
}

// Workers are started one after the other. Here: in every other generation, every other one was
// about to be.
void Agent::StopStarting() {
  if (supervisor_.header().generation.value % 2 == 0) return;
  for (std::size_t i = 1; i < workers_.size(); i += 2) {
    Process& process = *workers_[i];
    if (process.known || process.signalled != 0) continue;
    process.known = true;  // there is none
    FeedOf(workers_[i],
           Supervisor::SpawnFailed{LocalRank{static_cast<int>(i)}, 126, "too late", false});
  }
}

void Agent::OnExecuted(const ProcessPtr& process, LocalRank local_rank,
                       const Supervisor::SpawnWorkers& spawn, int life) {
  if (process->known) return;  // StopStarting
  process->known = true;
  if (!world_->healed && !world_->plan.benign && world_->random.Percent(1)) {
    FeedOf(process, Supervisor::SpawnFailed{local_rank, 126, "no room", false});
    return;
  }
  if (process->signalled == 0) {
    process->worker = world_->training.Start(this, spawn, requeue_number_, local_rank, life);
  }
  FeedOf(process, Supervisor::WorkerSpawned{local_rank, PidOf(*process)});
  if (local_rank.value == 0) Flap(world_, host_);
  if (process->signalled == 0) return;
  Supervisor::WorkerEnded ended;
  ended.local_rank = local_rank;
  ended.status.signal = process->signalled;
  ended.ended_at_ms = 1 + world_->scheduler.now() / kMillisecond;
  FeedOf(process, std::move(ended));
}

void Agent::Signal(const ProcessPtr& process, int signo) {
  if (!process->known) {
    process->signalled = signo;
  } else if (process->worker >= 0) {
    world_->training.Signal(process->worker, signo);
  }
}

void Agent::FeedOf(const ProcessPtr& process, Supervisor::Event event) {
  Post([this, process, event = std::move(event)] {
    if (!process->given_up) Step(event);
  });
}

void Agent::Perform(const Supervisor::SetFence& fence) {
  fence_ = fence.at;
  const int set = ++fences_set_;
  if (!fence_) return;
  if (*fence_ > Now()) fenced_ = false;
  const Time at = world_->hosts[host_]->clock.True(*fence_);
  world_->scheduler.At(at + world_->random.Between(0, 3) * kMillisecond, [this, set] {
    if (set != fences_set_ || !fence_) return;
    fenced_ = true;
    if (AnyLeft()) world_->recorder.Line(Name() + ": its guardian keeps the fence");
    EndWorkers();
  });
}

bool Agent::AnyLeft() const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const ProcessPtr& process) {
    if (!process->known) return process->signalled == 0;
    if (process->worker < 0) return false;
    const Worker& worker = world_->training.worker(process->worker);
    return worker.alive && !worker.stuck;
  });
}

bool Agent::AnyStuck() const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const ProcessPtr& process) {
    return process->worker >= 0 && world_->training.worker(process->worker).stuck;
  });
}

Supervisor::NodeCleared Agent::Clear() {
  Supervisor::NodeCleared cleared;
  for (const ProcessPtr& process : workers_) {
    process->given_up = true;
    if (process->worker < 0) continue;
    const Worker& worker = world_->training.worker(process->worker);
    if (!worker.stuck || world_->bug == Bug::kStuckForgotten) continue;
    cleared.stuck.push_back({worker.rank, PidOf(*process), ProcessState::kDiskWait, "a disk"});
  }
  return cleared;
}

// The machine is off, and whatever was stuck is gone with it.
void Agent::LoseWorkers() {
  for (const ProcessPtr& process : workers_) {
    if (process->known && process->worker >= 0) world_->training.PowerOff(process->worker);
  }
  EndWorkers();
}

void Agent::EndWorkers() {
  for (const ProcessPtr& process : workers_) Signal(process, SIGKILL);
}

void Agent::Exit(const Verdict& verdict) {
  world_->recorder.Event(kAgentEnded, id_, verdict.exit_code);
  world_->recorder.Line(absl::StrCat(Name(), " exits ", verdict.exit_code, " ",
                                     ToString(verdict.outcome), ": ", verdict.reason));
  if (AnyLeft()) world_->Violation(Name() + " exits and leaves workers behind");
  verdict_ = verdict;
  alive_ = false;
  CloseSession();
}

// ---- the client ----

// So that a lease sees at least one attempt, however short it is.
Time Agent::ThirdOfLease() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(world_->plan.spec.lease).count() / 3;
}

void Agent::Connect() {
  if (!alive_) return;
  attempting_ = true;
  const int attempt = ++attempt_;
  world_->scheduler.After(attempt_limit_, [this, attempt] {
    Post([this, attempt] { AttemptFailed(attempt, {"no answer", false, {}}); });
  });
  Syn(attempt, Now());
}

void Agent::Syn(int attempt, TimePoint started) {
  if (!alive_ || !attempting_ || attempt != attempt_) return;
  if (!world_->network.IsCut(host_, kUp)) {
    world_->network.SendOnce(host_, kUp, [this, attempt, started] {
      Daemon& daemon = world_->daemon;
      if (!daemon.up()) {
        if (!daemon.refuses()) return;
        world_->network.SendOnce(host_, kDown, [this, attempt, started] {
          Post([this, attempt, started] { OnRefused(attempt, started); });
        });
        return;
      }
      daemon.Post([this, attempt] {
        const SessionPtr session = world_->network.Open(host_, id_);
        session->server_open = true;
        session->boot = world_->daemon.boot();
        world_->network.Send(session, kDown, [this, attempt, session] {
          Post([this, attempt, session] { OnOpened(attempt, session); });
        });
      });
    });
    return;
  }
  world_->scheduler.After(kSecond, [this, attempt, started] { Syn(attempt, started); });
}

void Agent::OnOpened(int attempt, const SessionPtr& session) {
  if (attempt != attempt_ || !attempting_) {  // too late: it is closed again
    world_->network.Send(session, kUp, [this, session] { world_->ServerEndLost(session); });
    return;
  }
  if (session->broken) {  // meanwhile
    AttemptFailed(attempt, {"reset", false, {}});
    return;
  }
  attempting_ = false;
  session->agent_open = true;
  session_ = session;
  world_->recorder.Event(kSessionOpened, session->id, id_);
  world_->recorder.Line(absl::StrCat(Name(), " has session s", session->id));
  Step(Supervisor::SessionOpened{});
}

void Agent::OnRefused(int attempt, TimePoint started) {
  AttemptFailed(attempt, {"connection refused", true, started});
}

void Agent::AttemptFailed(int attempt, Supervisor::SessionLost lost) {
  if (attempt != attempt_ || !attempting_) return;
  attempting_ = false;
  if (!lost.refused) attempt_limit_ = std::min(2 * attempt_limit_, 10 * kSecond);
  Step(lost);
  const Time whole = std::max(backoff_, 50 * kMillisecond);
  backoff_ = std::min(2 * whole, std::min(kSecond, ThirdOfLease()));
  world_->scheduler.After(world_->random.Between(whole / 2, whole),
                          [this] { Post([this] { Connect(); }); });
}

void Agent::OnSessionLost(const SessionPtr& session, const char* why) {
  Post([this, session, why] {
    if (session_ != session) return;
    world_->recorder.Event(kSessionLost, session->id, 0);
    world_->recorder.Line(absl::StrCat(Name(), " lost session s", session->id, ": ", why));
    CloseSession();
    attempting_ = true;
    AttemptFailed(attempt_, {why, false, {}});
  });
}

void Agent::CloseSession() {
  if (session_ == nullptr) return;
  const SessionPtr session = std::exchange(session_, nullptr);
  session->agent_open = false;
  world_->network.Send(session, kUp, [this, session] { world_->ServerEndLost(session); });
}

void Agent::OnMessage(const SessionPtr& session, const Header& header,
                      const RendezvousMessage& message, int life) {
  Post([this, session, header, message, life] {
    if (session_ != session) return;
    world_->recorder.Event(kToAgent, session->id, message.index(),
                           static_cast<std::uint64_t>(header.generation.value));
    if (world_->recorder.tracing()) {
      world_->recorder.Line(
          absl::StrCat("  ", Name(), " <- s", session->id, " ", Text(header), " ", Text(message)));
    }
    backoff_ = 0;
    attempt_limit_ = std::min(kSecond, ThirdOfLease());
    Header seen = header;
    if (world_->bug == Bug::kNoAgentIdCheck) seen.agent_id = agent_id_;
    RendezvousMessage heard = message;
    if (auto* ack = std::get_if<HeartbeatAck>(&heard);
        ack != nullptr && world_->bug == Bug::kLeaseFromAckArrival) {
      ack->sent_at =
          std::chrono::duration_cast<std::chrono::nanoseconds>(Now().time_since_epoch()).count();
    }
    if (std::holds_alternative<Finished>(message)) verdict_life_ = life;
    if (std::holds_alternative<Assignment>(message) &&
        header.generation > supervisor_.header().generation) {
      offered_ = {header.generation, life};
    }
    Step(Supervisor::Received{seen, std::move(heard)});
    // Taken at once, or when a later message says that it holds.
    if (supervisor_.header().generation == offered_.generation) life_ = offered_.life;
  });
}

// ---- workers ----

void Agent::OnWorkerEnded(int worker, LocalRank local_rank, ExitStatus status,
                          const std::string& last_words) {
  Supervisor::WorkerEnded ended;
  ended.local_rank = local_rank;
  ended.status = status;
  if (!last_words.empty()) ended.stderr_tail = {last_words};
  ended.ended_at_ms = 1 + world_->scheduler.now() / kMillisecond;
  Post([this, worker, ended = std::move(ended)] {
    if (!IsIn(ended.local_rank, worker)) return;
    const Process& process = *workers_[ended.local_rank.value];
    if (process.given_up) {
      Step(Supervisor::StuckProcessEnded{PidOf(process)});
    } else {
      Step(ended);
    }
  });
}

void Agent::OnWorkerStays(int worker, LocalRank local_rank) {
  Post([this, worker, local_rank] {
    if (IsIn(local_rank, worker)) Step(Supervisor::WorkerStays{local_rank});
  });
}

void Agent::OnWorkerLeft(int worker, LocalRank local_rank) {
  Post([this, worker, local_rank] {
    if (IsIn(local_rank, worker)) Step(Supervisor::WorkerLeft{local_rank});
  });
}

// By then others may be in the place of one that was given up.
bool Agent::IsIn(LocalRank local_rank, int worker) const {
  const auto place = static_cast<std::size_t>(local_rank.value);
  return place < workers_.size() && workers_[place]->worker == worker;
}

}  // namespace ddprun::sim
