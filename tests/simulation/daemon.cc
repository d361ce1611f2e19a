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

Daemon::Daemon(World* world) : world_(world) {
  clock_.offset = world->random.Between(0, 1000) * kSecond;
  clock_.ppm = world->random.Between(-30000, 30000);
}

// ---- the process ----

void Daemon::Boot() {
  up_ = true;
  refuses_ = true;
  stalled_ = false;
  ++boot_;
  world_->recorder.Event(kFault, 100, boot_);
  if (durable_) {
    machine_ = std::make_unique<JobMachine>(kJob, *durable_, clock_.Local(world_->scheduler.now()),
                                            world_->plan.machine);
    life_ = durable_life_;
    world_->checker.OnRestored(*machine_, *durable_);
    world_->recorder.Line(
        absl::StrCat("daemon boots with the record of generation ", durable_->generation.value));
    ScheduleTick();
  } else {
    world_->recorder.Line("daemon boots, and knows nothing");
  }
}

void Daemon::Kill(bool refuses) {
  world_->recorder.Line(absl::StrCat("daemon is killed; ", refuses ? "refuses" : "silent"));
  up_ = false;
  refuses_ = refuses;
  stalled_ = false;
  ++boot_;  // whatever was scheduled for it is void
  ++world_->result.daemon_restarts;
  machine_.reset();
  inbox_.clear();
  // What was being written may be on the disk, in order, or may not.
  while (!writes_.empty() && world_->random.Percent(40)) {
    durable_ = writes_.front()->record;
    durable_life_ = writes_.front()->life;
    writes_.pop_front();
  }
  writes_.clear();
  if (world_->plan.memory_store) durable_.reset();
  streams_.clear();
  tick_at_ = -1;
  // Its kernel closes the connections; a machine that lost power does not.
  for (const SessionPtr& session : world_->network.OpenSessions()) {
    if (!session->server_open) continue;
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
  // Its keepalive answers nobody.
  for (const SessionPtr& session : world_->network.OpenSessions()) {
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
    // Sockets may be read before or after the timers are looked at.
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
  if (!session->server_open || session->boot != boot_) return;
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
      life_ = ++lives_;
      world_->checker.OnJobBegins();
      machine_ = std::make_unique<JobMachine>(kJob, header.requeue_number, world_->plan.machine);
      world_->recorder.Line(absl::StrCat("a job begins: life ", life_));
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
  const TimePoint now = clock_.Local(world_->scheduler.now());
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

void Daemon::Perform(const JobMachine::Action& action) {
  std::visit(Overloaded{
                 [&](const JobMachine::Persist& persist) { Persist(persist.record); },
                 [&](const JobMachine::Send& send) {
                   const int life = life_;
                   if (writes_.empty() || std::holds_alternative<HeartbeatAck>(send.message)) {
                     SendNow(send.header, send.message, life);
                   } else {
                     writes_.back()->held.push_back(
                         [this, send, life] { SendNow(send.header, send.message, life); });
                   }
                 },
                 [](const JobMachine::SendToMany&) {},  // one by one
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
                   world_->checker.OnEvent(*machine_, life_, happened.event);
                 },
                 [&](const JobMachine::Note& note) {
                   world_->recorder.Line("  daemon: " + note.text);
                   world_->checker.OnNote(note.text);
                 },
             },
             action);
}

void Daemon::Persist(const JobRecord& record) {
  world_->checker.OnRecord(life_, record);
  if (world_->plan.memory_store) return;
  auto write = std::make_shared<Write>();
  write->record = record;
  write->life = life_;
  writes_.push_back(write);
  const int boot = boot_;
  const Time takes = world_->random.Wide(kMillisecond, world_->plan.longest_fsync);
  world_->scheduler.After(takes, [this, write, boot] {
    if (boot != boot_) return;
    write->durable = true;
    // In order: one that was quicker waits for those before it. It has a thread of its own, so it
    // is not held up by the loop; but a stopped process does nothing at all.
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

void Daemon::SendNow(const Header& header, const RendezvousMessage& message, int life) {
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
  if (tick_at_ >= 0 && tick_at_ <= at) return;  // one comes before, and asks again
  tick_at_ = at + world_->random.Between(0, 2000) * 1000;
  const int boot = boot_;
  world_->scheduler.At(tick_at_, [this, boot, at = tick_at_] {
    if (boot != boot_ || tick_at_ != at) return;
    tick_at_ = -1;
    if (!stalled_) Step(JobMachine::Tick{});
  });
}

}  // namespace ddprun::sim
