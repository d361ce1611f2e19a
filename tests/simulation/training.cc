#include "tests/simulation/training.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/world.h"

namespace ddprun::sim {

Training::Training(World* world) : world_(world), in_place_(world, this) {}

const Group* Training::FindGroup(int life, std::uint32_t requeue_number,
                                 Generation generation) const {
  for (const Group& group : groups_) {
    if (group.life == life && group.requeue_number == requeue_number &&
        group.generation == generation) {
      return &group;
    }
  }
  return nullptr;
}

Group* Training::GroupOf(const Assignment& told, Generation generation,
                         std::uint32_t requeue_number, int life) {
  if (const Group* const group = FindGroup(life, requeue_number, generation)) {
    return const_cast<Group*>(group);
  }
  groups_.push_back({});
  Group* const group = &groups_.back();
  group->life = life;
  group->requeue_number = requeue_number;
  group->generation = generation;
  group->world_size = told.world_size;
  group->restore = told.restore;
  group->step = group->restore                      ? group->restore->step()
                : world_->plan.checkpoint_every > 0 ? durable_step_
                                                    : 0;
  ++world_->result.generations;
  return group;
}

int Training::Start(Agent* agent, const Supervisor::SpawnWorkers& spawn,
                    std::uint32_t requeue_number, LocalRank local_rank, int life,
                    std::optional<int> process) {
  if (!process) {
    process = static_cast<int>(processes_.size());
    processes_.emplace_back();
  }
  TrainingProcess& self = processes_[*process];
  ++self.generations;
  if (!self.told || world_->bug != Bug::kOldSurvivorJoins) self.told = spawn.assignment;
  Group* const group = GroupOf(*self.told, spawn.generation, requeue_number, life);
  if (group->restore != self.told->restore) {
    world_->Violation(absl::StrCat(agent->Name(), " begins generation ", spawn.generation.value,
                                   " with another state than its peers"));
  }
  const int id = static_cast<int>(workers_.size());
  const Rank rank{self.told->first_rank.value + local_rank.value};
  workers_.push_back({.id = id,
                      .process = *process,
                      .agent = agent,
                      .group = group,
                      .rank = rank,
                      .local_rank = local_rank,
                      .alive = true});
  alive_.push_back(id);
  ++group->started;
  ++group->alive;
  group->agents[rank.value] = agent;
  world_->recorder.Event(kWorkerStarted, id, rank.value, spawn.generation.value);
  if (world_->recorder.tracing()) {
    world_->recorder.Line(absl::StrCat("    worker ", id, " starts: ", agent->Name(),
                                       " requeue number ", requeue_number, " generation ",
                                       spawn.generation.value, " rank ", rank.value,
                                       self.generations > 1 ? ", it has stayed" : ""));
  }
  world_->checker.OnWorkerStarted(workers_.back());
  world_->live_checker.OnStarted(workers_.back(), spawn.assignment.first_rank);
  if (group->alive == group->world_size && !group->broken && !group->steps) {
    group->steps = true;
    if (world_->plan.stays) {
      in_place_.Begin(group);
    } else {
      world_->scheduler.After(world_->plan.step_time, [this, group] { StepGroup(group); });
    }
  }
  return id;
}

int Training::AliveOf(const std::vector<int>& workers) const {
  return static_cast<int>(
      std::count_if(workers.begin(), workers.end(), [&](int id) { return workers_[id].alive; }));
}

bool Training::complete() const { return durable_step_ >= world_->plan.total_steps; }

void Training::Signal(int id, int signo) {
  if (!workers_[id].alive && !workers_[id].left) return;
  if (signo == SIGKILL) {
    End(id, ExitStatus{0, SIGKILL, false}, "");
    return;
  }
  if (world_->random.Percent(5)) return;  // the worker ignores the signal
  world_->scheduler.After(world_->random.Wide(1, 500) * kMillisecond, [this, id, signo] {
    End(id, ExitStatus{0, signo, false}, "");
  });
}

void Training::PowerOff(int id) {
  workers_[id].stuck = false;
  Signal(id, SIGKILL);
}

void Training::AskToSave(int id) {
  if (world_->plan.workers_speak) workers_[id].group->save = true;
}

void Training::AskToLeave(int id) { in_place_.AskToLeave(id); }

int Training::Adopt(int id) {
  workers_[id].left = false;
  return workers_[id].process;
}

void Training::Leave(int id) {
  Worker& worker = workers_[id];
  if (!worker.alive || worker.stuck) return;
  worker.alive = false;
  worker.left = true;
  std::erase(alive_, id);
  --worker.group->alive;
  ++world_->result.stayed;
  if (world_->recorder.tracing()) {
    world_->recorder.Line(absl::StrCat("    worker ", id, " (", worker.agent->Name(), " rank ",
                                       worker.rank.value, ") has left its generation"));
  }
  in_place_.OnGone(worker);
  worker.agent->OnWorkerLeft(id, worker.local_rank);
}

void Training::FailOne() {
  if (alive_.empty()) return;
  const int id = alive_[world_->random.Between(0, static_cast<int>(alive_.size()) - 1)];
  End(id, world_->random.Percent(50) ? ExitStatus{3} : ExitStatus{0, SIGSEGV, false}, "");
}

void Training::StickOne(Time duration) {
  if (alive_.empty()) return;
  Random& random = world_->stuck_random;
  const auto any = [&](const std::vector<int>& ids) {
    return ids[random.Between(0, static_cast<int>(ids.size()) - 1)];
  };
  const int id = any(alive_);
  if (workers_[id].stuck) return;
  workers_[id].stuck = true;
  ++world_->result.stuck;
  world_->recorder.Line(
      absl::StrCat("fault: worker ", id, " is stuck for ", duration / kMillisecond, " ms"));
  world_->scheduler.After(duration, [this, id] { Unstick(id); });
  std::vector<int> peers = alive_;
  std::erase_if(peers, [&](int peer) {
    return workers_[peer].group != workers_[id].group || workers_[peer].stuck;
  });
  if (peers.empty() || random.Percent(20)) return;
  world_->scheduler.After(random.Wide(1, 900) * kMillisecond,
                          [this, peer = any(peers)] { End(peer, ExitStatus{3}, ""); });
}

void Training::Unstick(int id) {
  Worker& worker = workers_[id];
  if (!worker.alive || !worker.stuck) return;
  worker.stuck = false;
  if (worker.ends_as) return End(id, *worker.ends_as, "");
  if (worker.group->waits) StepGroup(worker.group);
  in_place_.Resume(id);
}

void Training::End(int id, ExitStatus status, const std::string& kind) {
  Worker& worker = workers_[id];
  if (!worker.alive && !worker.left) return;
  if (worker.stuck) {
    const bool killed = worker.ends_as && worker.ends_as->signal == SIGKILL;
    if (!killed) worker.ends_as = status;
    return;
  }
  processes_[worker.process].alive = false;
  if (!std::exchange(worker.left, false)) {
    worker.alive = false;
    std::erase(alive_, id);
    --worker.group->alive;
    in_place_.OnGone(worker);
  }
  world_->recorder.Event(kWorkerEnded, id, status.code, status.signal);
  if (world_->recorder.tracing()) {
    world_->recorder.Line(absl::StrCat("    worker ", id, " (", worker.agent->Name(), " rank ",
                                       worker.rank.value, ") ends: ", status.Describe(), kind));
  }
  if (!status.ok()) Break(worker.group);
  // Its agent notices it a little later.
  const bool victim = !kind.empty();
  world_->scheduler.After(
      world_->random.Between(10, 1500) * 1000,
      [this, id, agent = worker.agent, local = worker.local_rank, status, victim] {
        if (victim && world_->plan.workers_speak) {
          agent->Feed(Supervisor::ErrorReported{local, "collective", "a peer is gone"});
        }
        agent->OnWorkerEnded(id, local, status, victim ? "Connection closed by peer" : "");
      });
}

// A peer is gone: most workers fail within a second, some hang until they are killed.
void Training::Break(Group* group) {
  if (group->broken) return;
  group->broken = true;
  if (world_->plan.stays && group->steps) return in_place_.OnPeerGone(group);
  for (const int id : alive_) {
    if (workers_[id].group != group || world_->random.Percent(30)) continue;
    world_->scheduler.After(world_->random.Wide(1, 900) * kMillisecond,
                            [this, id] { End(id, ExitStatus{1}, " (collective)"); });
  }
}

Due Training::TakeDue(Group* group, std::int64_t step) {
  const Plan& plan = world_->plan;
  Due due;
  due.last = step >= plan.total_steps;
  due.checkpoint = std::exchange(group->save, false) ||
                   (plan.checkpoint_every > 0 && (due.last || step % plan.checkpoint_every == 0));
  due.snapshot = plan.snapshot_every > 0 && step % plan.snapshot_every == 0;
  return due;
}

void Training::Keep(const Group& group, const Due& due, const std::optional<WholeState>& state) {
  if (due.checkpoint) Save(group, Tier::kDurable, state);
  if (due.snapshot) Save(group, Tier::kMemory, state);
}

void Training::Save(const Group& group, Tier tier, const std::optional<WholeState>& state) {
  const SavedState saved{group.requeue_number, group.generation, group.step, tier};
  const std::string path = absl::StrCat("step-", group.step);
  for (const int id : std::vector<int>(alive_)) {
    const Worker& worker = workers_[id];
    const bool saves =
        tier == Tier::kMemory ? worker.local_rank.value == 0 : worker.rank.value == 0;
    if (worker.group != &group || !saves) continue;
    if (tier == Tier::kDurable) {
      durable_step_ = std::max(durable_step_, group.step);
      std::vector<SavedFile>& disk = world_->Disk(worker.agent->host());
      std::erase_if(disk, [&](const SavedFile& file) { return file.path == path; });
      disk.insert(disk.begin(), {saved, path});
      if (disk.size() > 3) disk.pop_back();
    } else if (world_->state_random.Percent(50)) {
      continue;  // this node is slower
    } else if (state) {
      worker.agent->memory().Publish(*state);
    }
    worker.agent->OnSaved(worker.local_rank, saved, path);
  }
}

void Training::TellStep(const Worker& worker, std::int64_t step) {
  if (!world_->plan.workers_speak || worker.local_rank.value != 0) return;
  worker.agent->Feed(Supervisor::StepReported{worker.local_rank, step});
  if (!world_->disk_random.Percent(10)) return;
  // Another checkpoint, on a full disk.
  worker.agent->OnFailedToSave(worker.local_rank, step, ++workers_[worker.id].failed_checkpoints);
}

void Training::EndWell(int id) {
  world_->scheduler.After(world_->random.Wide(1, 300) * kMillisecond, [this, id] {
    if (workers_[id].alive) End(id, ExitStatus{}, "");
  });
}

void Training::StepGroup(Group* group) {
  if (group->broken || group->alive < group->world_size) return;
  group->waits = std::any_of(alive_.begin(), alive_.end(), [&](int id) {
    return workers_[id].group == group && workers_[id].stuck;
  });
  if (group->waits) return;  // Unstick continues
  if (group->step < world_->plan.total_steps) ++group->step;
  const Due due = TakeDue(group, group->step);
  Keep(*group, due, std::nullopt);
  for (const int id : std::vector<int>(alive_)) {
    const Worker& worker = workers_[id];
    if (worker.group != group) continue;
    TellStep(worker, group->step);
    if (due.last) EndWell(id);
  }
  if (due.last) return;
  world_->scheduler.After(world_->plan.step_time, [this, group] { StepGroup(group); });
}

}  // namespace ddprun::sim
