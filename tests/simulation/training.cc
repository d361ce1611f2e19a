#include "tests/simulation/training.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "tests/simulation/world.h"

namespace ddprun::sim {

Training::Training(World* world) : world_(world) {}

int Training::Start(Agent* agent, const Supervisor::SpawnWorkers& spawn,
                    std::uint32_t requeue_number, LocalRank local_rank, int life) {
  Group* group = nullptr;
  for (Group& other : groups_) {
    if (other.life == life && other.requeue_number == requeue_number &&
        other.generation == spawn.generation) {
      group = &other;
    }
  }
  if (group == nullptr) {
    groups_.push_back({});
    group = &groups_.back();
    group->life = life;
    group->requeue_number = requeue_number;
    group->generation = spawn.generation;
    group->world_size = spawn.assignment.world_size;
    group->restore = spawn.assignment.restore;
    group->step = group->restore                      ? group->restore->step()
                  : world_->plan.checkpoint_every > 0 ? durable_step_
                                                      : 0;
    ++world_->result.generations;
  }
  if (group->restore != spawn.assignment.restore) {
    world_->Violation(absl::StrCat(agent->Name(), " begins generation ", spawn.generation.value,
                                   " with another state than its peers"));
  }
  const int id = static_cast<int>(workers_.size());
  const Rank rank{spawn.assignment.first_rank.value + local_rank.value};
  workers_.push_back({.id = id,
                      .agent = agent,
                      .group = group,
                      .rank = rank,
                      .local_rank = local_rank,
                      .alive = true});
  alive_.push_back(id);
  ++group->started;
  ++group->alive;
  world_->recorder.Event(kWorkerStarted, id, rank.value, spawn.generation.value);
  if (world_->recorder.tracing()) {
    world_->recorder.Line(absl::StrCat("    worker ", id, " starts: ", agent->Name(),
                                       " requeue number ", requeue_number, " generation ",
                                       spawn.generation.value, " rank ", rank.value));
  }
  world_->checker.OnWorkerStarted(workers_.back());
  if (world_->plan.stays) {
    world_->scheduler.After(world_->stay_random.Wide(1, 60) * kMillisecond, [this, id] {
      const Worker& worker = workers_[id];
      if (worker.alive) worker.agent->OnWorkerStays(id, worker.local_rank);
    });
  }
  if (group->alive == group->world_size && !group->broken && !group->steps) {
    group->steps = true;
    world_->scheduler.After(world_->plan.step_time, [this, group] { StepGroup(group); });
  }
  return id;
}

int Training::AliveOf(const std::vector<int>& workers) const {
  return static_cast<int>(
      std::count_if(workers.begin(), workers.end(), [&](int id) { return workers_[id].alive; }));
}

bool Training::complete() const { return durable_step_ >= world_->plan.total_steps; }

void Training::Signal(int id, int signo) {
  if (!workers_[id].alive) return;
  if (signo == SIGKILL) {
    End(id, ExitStatus{0, SIGKILL, false}, "");
    return;
  }
  if (world_->random.Percent(5)) return;  // it ignores it
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

void Training::AskToLeave(int id) {
  if (world_->stay_random.Percent(5)) return;
  world_->scheduler.After(world_->stay_random.Wide(1, 1000) * kMillisecond,
                          [this, id] { Leave(id); });
}

void Training::Leave(int id) {
  Worker& worker = workers_[id];
  if (!worker.alive || worker.stuck) return;
  worker.alive = false;
  std::erase(alive_, id);
  --worker.group->alive;
  ++world_->result.stayed;
  if (world_->recorder.tracing()) {
    world_->recorder.Line(absl::StrCat("    worker ", id, " (", worker.agent->Name(), " rank ",
                                       worker.rank.value, ") has left its generation"));
  }
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
}

void Training::End(int id, ExitStatus status, const std::string& kind) {
  Worker& worker = workers_[id];
  if (!worker.alive) return;
  if (worker.stuck) {
    const bool killed = worker.ends_as && worker.ends_as->signal == SIGKILL;
    if (!killed) worker.ends_as = status;
    return;
  }
  worker.alive = false;
  std::erase(alive_, id);
  --worker.group->alive;
  world_->recorder.Event(kWorkerEnded, id, status.code, status.signal);
  if (world_->recorder.tracing()) {
    world_->recorder.Line(absl::StrCat("    worker ", id, " (", worker.agent->Name(), " rank ",
                                       worker.rank.value, ") ends: ", status.Describe(), kind));
  }
  if (!status.ok()) Break(worker.group);
  // Its agent hears of it a little later.
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

// A peer is gone: most fail within a second, some hang until they are ended.
void Training::Break(Group* group) {
  if (group->broken) return;
  group->broken = true;
  for (const int id : alive_) {
    if (workers_[id].group != group || world_->random.Percent(30)) continue;
    world_->scheduler.After(world_->random.Wide(1, 900) * kMillisecond,
                            [this, id] { End(id, ExitStatus{1}, " (collective)"); });
  }
}

void Training::Save(const Group& group, Tier tier) {
  const SavedState state{group.requeue_number, group.generation, group.step, tier};
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
      disk.insert(disk.begin(), {state, path});
      if (disk.size() > 3) disk.pop_back();
    } else if (world_->state_random.Percent(50)) {
      continue;  // not every node is as quick
    }
    worker.agent->OnSaved(worker.local_rank, state, path);
  }
}

// One more checkpoint, on a disk that does not take it.
void Training::FailToSave(int id) {
  Worker& worker = workers_[id];
  worker.agent->OnFailedToSave(worker.local_rank, worker.group->step, ++worker.failed_checkpoints);
}

void Training::StepGroup(Group* group) {
  if (group->broken || group->alive < group->world_size) return;
  group->waits = std::any_of(alive_.begin(), alive_.end(), [&](int id) {
    return workers_[id].group == group && workers_[id].stuck;
  });
  if (group->waits) return;  // Unstick goes on
  const Plan& plan = world_->plan;
  if (group->step < plan.total_steps) ++group->step;
  const bool last = group->step >= plan.total_steps;
  const bool checkpoint = group->save || (plan.checkpoint_every > 0 &&
                                          (last || group->step % plan.checkpoint_every == 0));
  group->save = false;
  if (checkpoint) Save(*group, Tier::kDurable);
  if (plan.snapshot_every > 0 && group->step % plan.snapshot_every == 0) {
    Save(*group, Tier::kMemory);
  }
  for (const int id : std::vector<int>(alive_)) {
    const Worker& worker = workers_[id];
    if (worker.group != group) continue;
    if (plan.workers_speak && worker.local_rank.value == 0) {
      worker.agent->Feed(Supervisor::StepReported{worker.local_rank, group->step});
      if (world_->disk_random.Percent(10)) FailToSave(id);
    }
    if (last) {
      world_->scheduler.After(world_->random.Wide(1, 300) * kMillisecond,
                              [this, id] { End(id, ExitStatus{}, ""); });
    }
  }
  if (last) return;
  world_->scheduler.After(plan.step_time, [this, group] { StepGroup(group); });
}

}  // namespace ddprun::sim
