#include "tests/simulation/agent.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
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
  options.several = world.several;
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
  if (world_->several) AskWhoLeads();
}

void Agent::Kill() {
  if (!alive_) return;
  world_->recorder.Line(Name() + " is killed");
  alive_ = false;
  CloseSession();
  // The guardian usually acts at once, and at the latest after the time that it promises.
  const Time takes = world_->random.Percent(70) ? world_->random.Wide(1, 50) * kMillisecond
                                                : world_->random.Wide(50, 2000) * kMillisecond;
  world_->scheduler.After(takes, [this] {
    if (!world_->hosts[host_]->powered) return;
    EndWorkers();
    if (AnyStuck()) return;  // the guardian does not report that the node is clear
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (world_->random.Percent(30)) continue;  // lost
      world_->scheduler.After(attempt * 500 * kMillisecond, [this] {
        for (int number = 0; number < world_->plan.several.daemons; ++number) ReportGone(number);
      });
    }
  });
}

// Reports to each rendezvous. A standby ignores it, as it does not know the agent.
void Agent::ReportGone(int number) {
  Daemon& daemon = *world_->daemons[number];
  const auto arrived = [this, &daemon] {
    daemon.Post([this, &daemon] { daemon.OnAgentGone(agent_id_); });
  };
  world_->network.SendOnce(host_, kUp, arrived, number);
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
    acted_ = acted_ || !std::holds_alternative<Supervisor::Note>(*action);
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
          [&](const Supervisor::StartStandbys&) { AfterTheDisk(Supervisor::StandbysStarted{}); },
          [&](const Supervisor::EndStandbys&) { EndStandbys(); },
          [&](const Supervisor::PrepareFolders& prepare) {
            AfterTheDisk(Supervisor::FoldersReady{prepare.generation, LocalRank{0}, ""});
          },
          [&](const Supervisor::SpawnWorkers& spawn) { Perform(spawn); },
          [&](const Supervisor::AllWorkersRun&) {
            pool_.Step(StandbyPool::GenerationStarted{}, Now());
          },
          [&](const Supervisor::GenerationEnded&) {
            pool_.Step(StandbyPool::GenerationEnded{}, Now());
            StopStarting();
          },
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
    if (!session->server_open) {  // nobody listens: the other machine refuses
      const Daemon& daemon = world_->OfSession(*session);
      if (!session->broken && (daemon.up() || daemon.refuses())) {
        world_->network.SendOnce(
            host_, kDown, [this, session] { world_->AgentEndLost(session, "reset"); },
            session->daemon);
      }
      return;
    }
    Daemon& daemon = *world_->daemons[session->daemon];
    daemon.Post(
        [&daemon, session, header, message] { daemon.OnMessage(session, header, message); });
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

void Agent::Exit(const Verdict& verdict) {
  world_->recorder.Event(kAgentEnded, id_, verdict.exit_code);
  world_->recorder.Line(absl::StrCat(Name(), " exits ", verdict.exit_code, " ",
                                     ToString(verdict.outcome), ": ", verdict.reason));
  if (AnyLeft() || !waiting_.empty()) {
    world_->Violation(Name() + " exits and leaves workers behind");
  }
  verdict_ = verdict;
  alive_ = false;
  CloseSession();
}

}  // namespace ddprun::sim
