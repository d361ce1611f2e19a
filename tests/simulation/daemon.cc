#include "tests/simulation/daemon.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/text.h"
#include "tests/simulation/world.h"
#include "tests/support/one_by_one.h"
#include "worker/contract/overloaded.h"

namespace ddprun::sim {
namespace {

constexpr char kJob[] = "job";

}  // namespace

Daemon::Daemon(World* world, int number, Random* random)
    : world_(world), number_(number), options_(world->plan.machine) {
  clock_.offset = random->Between(0, 1000) * kSecond;
  clock_.ppm = random->Between(-30000, 30000);
  if (world->several) contender_ = std::make_unique<Contender>(world, this, number);
}

TimePoint Daemon::Now() const { return clock_.Local(world_->scheduler.now()); }

// ---- the process ----

void Daemon::Boot(int ousted) {
  up_ = true;
  refuses_ = true;
  stalled_ = false;
  ++boot_;
  world_->recorder.Event(kFault, 100, boot_);
  if (contender_ != nullptr) {
    world_->recorder.Line(absl::StrCat("r", number_, " boots"));
    contender_->Begin(ousted);
  } else if (durable_) {
    TakeUp(*durable_, durable_life_);
  } else {
    world_->recorder.Line("daemon boots, and knows nothing");
  }
}

void Daemon::TakeUp(const JobRecord& record, int life) {
  machine_ = std::make_unique<JobMachine>(kJob, record, Now(), options_);
  life_ = life;
  if (Decides()) world_->checker.OnRestored(*machine_, record);
  world_->recorder.Line(
      absl::StrCat("daemon boots with the record of generation ", record.generation.value));
  ScheduleTick();
}

void Daemon::Kill(bool refuses) {
  world_->recorder.Line(absl::StrCat("daemon is killed; ", refuses ? "refuses" : "silent"));
  up_ = false;
  refuses_ = refuses;
  stalled_ = false;
  ++boot_;  // voids all that was scheduled for the old process
  ++world_->result.daemon_restarts;
  machine_.reset();
  inbox_.clear();
  // Pending writes may have reached the disk; if one did, all earlier ones did too.
  while (contender_ == nullptr && !writes_.empty() && world_->random.Percent(40)) {
    durable_ = writes_.front()->record;
    durable_life_ = writes_.front()->life;
    writes_.pop_front();
  }
  writes_.clear();
  kept_back_.clear();
  if (world_->plan.memory_store) durable_.reset();
  streams_.clear();
  tick_at_ = -1;
  CloseSessions(refuses);
}

// If only the process died, its kernel closes the connections. After a loss of power nothing does.
void Daemon::CloseSessions(bool refuses) {
  for (const SessionPtr& session : world_->network.OpenSessions()) {
    if (!session->server_open || session->daemon != number_) continue;
    session->server_open = false;
    if (refuses) {
      world_->network.Send(session, kDown,
                           [this, session] { world_->AgentEndLost(session, "closed"); });
    } else {
      world_->network.Break(session, world_->random.Between(2000, 3000) * kMillisecond, -1);
    }
  }
}

void Daemon::Stall(Time duration) {
  if (!up_ || stalled_) return;
  stalled_ = true;
  world_->recorder.Line(absl::StrCat("daemon is stopped for ", duration / kMillisecond, " ms"));
  const int boot = boot_;
  // It does not answer keepalives.
  for (const SessionPtr& session : world_->network.OpenSessions()) {
    if (session->daemon != number_) continue;
    const Time noticed = world_->random.Between(2000, 3000) * kMillisecond;
    if (noticed < duration) {
      world_->scheduler.After(noticed,
                              [this, session] { world_->AgentEndLost(session, "keepalive"); });
    }
  }
  world_->scheduler.After(duration, [this, boot] {
    if (boot != boot_) return;
    stalled_ = false;
    world_->recorder.Line("daemon continues");
    // Sockets may be read before or after the timers run.
    if (world_->random.Percent(50)) {
      tick_at_ = -1;
      if (machine_ != nullptr) Step(JobMachine::Tick{});
    }
    for (const auto& task : std::exchange(inbox_, {})) {
      if (boot != boot_) return;
      task();
    }
    ScheduleTick();
  });
}

void Daemon::Post(std::function<void()> task) {
  if (!up_) return;
  if (stalled_) {
    inbox_.push_back(std::move(task));
  } else {
    task();
  }
}

// ---- sessions ----

AgentId Daemon::Seen(const SessionPtr& session, AgentId agent_id) {
  if (world_->bug != Bug::kNoAgentIdCheck) return agent_id;
  return first_on_host_.emplace(session->host, agent_id).first->second;
}

void Daemon::OnMessage(const SessionPtr& session, Header header, AgentMessage message) {
  if (!session->server_open || session->boot != boot_ || !serves()) return;
  world_->recorder.Event(kToDaemon, session->id, message.index(),
                         static_cast<std::uint64_t>(header.generation.value));
  if (world_->recorder.tracing()) {
    world_->recorder.Line(
        absl::StrCat("  daemon <- ", Text(header), " s", session->id, " ", Text(message)));
  }
  header.agent_id = Seen(session, header.agent_id);
  if (auto* join = std::get_if<Join>(&message)) {
    if (world_->bug == Bug::kRanksBeforeLease) {
      join->job.lease /= 2;
      join->job.heartbeat /= 2;
    }
    if (world_->bug == Bug::kNobodyLooksAgain) join->can_look_again = false;
    const bool returns = header.generation.value >= 0 || join->returning;
    if (machine_ == nullptr || machine_->BeginsAnother(header, *join)) {
      life_ = ++world_->lives;
      if (Decides()) world_->checker.OnJobBegins();
      machine_ = std::make_unique<JobMachine>(kJob, header.requeue_number, options_);
      world_->recorder.Line(absl::StrCat("a job begins: life ", life_));
      // Its leader waits for workers of jobs that etcd knew before.
      if (world_->etcd.IsRestored()) world_->checker.OnReturner(life_);
    }
    if (returns && machine_->generation().value < 0 &&
        header.requeue_number >= machine_->requeue_number()) {
      world_->checker.OnReturner(life_);
    }
    if (!session->has_joined) {
      session->has_joined = true;
      session->agent_id = header.agent_id;
      SessionPtr& place = streams_[header.agent_id.value];
      const SessionPtr older = std::exchange(place, session);
      if (older != nullptr && older != session && older->server_open) {
        older->server_open = false;
        world_->network.Send(older, kDown,
                             [this, older] { world_->AgentEndLost(older, "replaced"); });
      }
    }
  } else if (!session->has_joined || machine_ == nullptr) {
    return;
  }
  Step(JobMachine::Received{header, std::move(message)});
}

void Daemon::OnEnd(const SessionPtr& session) {
  if (!session->server_open || session->boot != boot_) return;
  session->server_open = false;
  world_->recorder.Event(kSessionLost, session->id, 1);
  if (!session->has_joined) return;
  const auto place = streams_.find(session->agent_id.value);
  if (place == streams_.end() || place->second != session) return;
  streams_.erase(place);
  world_->recorder.Line(absl::StrCat("  daemon: session s", session->id, " has ended"));
  Step(JobMachine::StreamBroken{session->agent_id});
}

void Daemon::OnAgentGone(AgentId agent_id) {
  if (!up_ || world_->bug == Bug::kNoAgentIdCheck) return;
  world_->recorder.Line(absl::StrCat("  daemon: agent ", agent_id.value, " is gone"));
  Step(JobMachine::AgentGone{agent_id});
}

void Daemon::Ask(const JobMachine::Event& event) {
  Post([this, event] { Step(event); });
}

// ---- the JobMachine ----

void Daemon::Step(const JobMachine::Event& event) {
  if (!up_ || machine_ == nullptr) return;
  const TimePoint now = Now();
  const JobState before = machine_->state();
  const std::vector<JobMachine::Action> actions = OneByOne(machine_->Step(event, now));
  world_->recorder.Event(kMachineStepped, event.index(),
                         static_cast<std::uint64_t>(machine_->state()), actions.size());
  if (machine_->state() != before && world_->recorder.tracing()) {
    world_->recorder.Line(absl::StrCat("  daemon: ", ToString(before), " -> ",
                                       ToString(machine_->state()), ", generation ",
                                       machine_->generation().value));
  }
  for (const JobMachine::Action& action : actions) Perform(action);
  ScheduleTick();
}

bool Daemon::Decides() const { return contender_ == nullptr || contender_->HoldsKey(); }

void Daemon::Perform(const JobMachine::Action& action) {
  std::visit(Overloaded{
                 [&](const JobMachine::Persist& persist) { Persist(*persist.record); },
                 [&](const JobMachine::Send& send) { Send(send); },
                 [](const JobMachine::SendToMany&) {},  // Send comes for each one
                 [&](const JobMachine::Answer& answer) {
                   world_->recorder.Line("  answer: " + answer.text);
                 },
                 [&](const JobMachine::ShowStacks& shown) {
                   world_->recorder.Line(
                       absl::StrCat("  answer: stacks, not of ", shown.missing.size(), " nodes"));
                 },
                 [&](const JobMachine::MergeStacks& merge) { Ask(stacks_.Perform(merge)); },
                 [&](const JobMachine::JudgeStacks& judge) { Ask(stacks_.Perform(judge)); },
                 [&](const JobMachine::ForgetStacks& forget) { stacks_.Perform(forget); },
                 [&](const JobMachine::Happened& happened) {
                   if (world_->recorder.tracing()) {
                     world_->recorder.Line("  * " + Text(happened.event));
                   }
                   if (Decides()) world_->checker.OnEvent(*machine_, life_, happened.event);
                 },
                 [&](const JobMachine::Note& note) {
                   world_->recorder.Line("  daemon: " + note.text);
                   world_->checker.OnNote(note.text);
                 },
             },
             action);
}

void Daemon::Send(const JobMachine::Send& send) {
  const bool is_ack = std::holds_alternative<HeartbeatAck>(send.message);
  const auto effect = [this, send, life = life_] { SendNow(send.header, send.message, life); };
  if (is_ack) {
    if (contender_ == nullptr || contender_->MaySpeak()) effect();
  } else if (writes_.empty()) {
    Speak(effect);
  } else {
    writes_.back()->held.push_back(effect);
  }
}

void Daemon::Speak(Effect effect) {
  if (contender_ != nullptr && (!kept_back_.empty() || !contender_->MaySpeak())) {
    kept_back_.push_back(std::move(effect));
  } else {
    effect();
  }
}

void Daemon::Persist(const JobRecord& record) {
  if (Decides()) world_->checker.OnRecord(life_, record);
  if (world_->plan.memory_store) return;
  auto write = std::make_shared<Write>();
  write->record = record;
  write->life = life_;
  writes_.push_back(write);
  if (contender_ != nullptr) return PersistOnEtcd(write);
  const int boot = boot_;
  const Time takes = world_->random.Wide(kMillisecond, world_->plan.longest_fsync);
  world_->scheduler.After(takes, [this, write, boot] {
    if (boot != boot_) return;
    write->durable = true;
    // Writes become durable in order: a quick one waits for the earlier ones. The journal has its
    // own thread, so a busy loop does not delay it; but a stopped process writes nothing.
    Post([this] {
      while (!writes_.empty() && writes_.front()->durable) {
        const std::shared_ptr<Write> done = writes_.front();
        writes_.pop_front();
        durable_ = done->record;
        durable_life_ = done->life;
        world_->recorder.Event(kDurable, static_cast<std::uint64_t>(durable_->generation.value));
        for (const Effect& effect : done->held) effect();
      }
    });
  });
}

void Daemon::PersistOnEtcd(const std::shared_ptr<Write>& write) {
  const auto state = std::make_shared<const Etcd::Stored>(
      Etcd::Stored{++world_->writes, write->life, write->record});
  contender_->Write(state, [this, write, boot = boot_] {
    if (boot != boot_) return;
    writes_.pop_front();
    for (const Effect& effect : write->held) Speak(effect);
  });
}

// ---- one of several ----

void Daemon::Lead(const Etcd::Stored* stored, TimePoint leases_from, bool restored) {
  options_.leases_from = leases_from;
  options_.restored = restored;
  if (stored != nullptr) TakeUp(stored->record, stored->life);
}

void Daemon::OnValidity() {
  for (const Effect& effect : std::exchange(kept_back_, {})) effect();
}

void Daemon::ExecuteAgain(int ousted) {
  Kill(true);
  const int boot = boot_;
  world_->scheduler.After(world_->several_random.Between(5, 50) * kMillisecond,
                          [this, boot, ousted] {
                            if (boot == boot_) Boot(ousted);
                          });
}

void Daemon::End() { Kill(true); }

void Daemon::SendNow(const Header& said, const RendezvousMessage& message, int life) {
  Header header = said;
  if (contender_ != nullptr) header.term = contender_->term();
  if (const auto* assignment = std::get_if<Assignment>(&message)) {
    world_->checker.OnAssigned(life, header, *assignment);
  }
  const auto stream = streams_.find(header.agent_id.value);
  if (stream == streams_.end()) return;
  const SessionPtr session = stream->second;
  world_->network.Send(session, kDown, [this, session, header, message, life] {
    world_->agents[session->agent]->OnMessage(session, header, message, life);
    if (world_->plan.duplicates && world_->random.Percent(5)) {
      world_->scheduler.After(
          world_->random.Between(0, 300) * kMillisecond, [this, session, header, message, life] {
            world_->agents[session->agent]->OnMessage(session, header, message, life);
          });
    }
  });
}

void Daemon::ScheduleTick() {
  if (!up_ || stalled_ || machine_ == nullptr) return;
  const std::optional<TimePoint> deadline = machine_->NextDeadline();
  if (!deadline) return;
  const Time at = std::max(world_->scheduler.now(), clock_.True(*deadline));
  if (tick_at_ >= 0 && tick_at_ <= at) return;  // an earlier tick schedules the next
  tick_at_ = at + world_->random.Between(0, 2000) * 1000;
  const int boot = boot_;
  world_->scheduler.At(tick_at_, [this, boot, at = tick_at_] {
    if (boot != boot_ || tick_at_ != at) return;
    tick_at_ = -1;
    if (!stalled_) Step(JobMachine::Tick{});
  });
}

}  // namespace ddprun::sim
