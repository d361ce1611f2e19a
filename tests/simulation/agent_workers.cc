// Agent: its worker processes, and the guardian that ends them.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/agent.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/world.h"

namespace ddprun::sim {

// Forks all workers at once. Their execs end later, in any order.
void Agent::Perform(const Supervisor::SpawnWorkers& spawn) {
  ++scan_;
  if (spawn.assignment.restore) states_.OnStarted(*spawn.assignment.restore);
  workers_.clear();
  for (int i = 0; i < world_->plan.workers_per_host; ++i) {
    workers_.push_back(std::make_shared<Process>());
    workers_.back()->survivor = TakeSurvivor(LocalRank{i});
    const Time takes = workers_.back()->survivor ? world_->stay_random.Wide(1, 5) * kMillisecond
                       : world_->plan.benign || world_->random.Percent(95)
                           ? world_->random.Wide(1, 30) * kMillisecond
                           : world_->random.Wide(30, 10'000) * kMillisecond;
    world_->scheduler.After(takes, [this, process = workers_.back(), i, spawn, life = life_] {
      OnExecuted(process, LocalRank{i}, spawn, life);
    });
  }
  if (fenced_) EndWorkers();  // the guardian starts nothing after the fence
}

// The real agent starts workers one after the other. So in every other generation, every other
// worker is treated as not started yet.
void Agent::StopStarting() {
  if (supervisor_.header().generation.value % 2 == 0) return;
  for (std::size_t i = 1; i < workers_.size(); i += 2) {
    Process& process = *workers_[i];
    if (process.known || process.signalled != 0 || process.survivor) continue;
    process.known = true;  // it has no process
    FeedOf(workers_[i],
           Supervisor::SpawnFailed{LocalRank{static_cast<int>(i)}, 126, "too late", false});
  }
}

void Agent::OnExecuted(const ProcessPtr& process, LocalRank local_rank,
                       const Supervisor::SpawnWorkers& spawn, int life) {
  if (process->known) return;  // StopStarting
  process->known = true;
  const bool fails = !world_->healed && !world_->plan.benign && world_->random.Percent(1);
  if (fails && !process->survivor) {
    FeedOf(process, Supervisor::SpawnFailed{local_rank, 126, "no room", false});
    return;
  }
  if (process->signalled == 0) {
    process->worker =
        world_->training.Start(this, spawn, requeue_number_, local_rank, life, process->survivor);
  } else if (process->survivor) {
    world_->training.EndWaiting(*process->survivor);
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
  process->leaves = false;  // a signal replaces the request to leave
  if (!process->known) {
    process->signalled = signo;
  } else if (process->worker >= 0) {
    world_->training.Signal(process->worker, signo);
  }
}

void Agent::Perform(const Supervisor::AskWorkersToLeave& ask) {
  for (const LocalRank local : ask.local_ranks) {
    const int worker = workers_[local.value]->worker;
    workers_[local.value]->leaves = true;
    if (world_->bug == Bug::kLeftTooEarly) {
      OnWorkerLeft(worker, local);
    } else {
      world_->training.AskToLeave(worker);
    }
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
    return (worker.alive || worker.left) && !worker.stuck;
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

// The machine loses power; stuck workers are gone too.
void Agent::LoseWorkers() {
  for (const ProcessPtr& process : workers_) {
    if (process->known && process->worker >= 0) world_->training.PowerOff(process->worker);
  }
  EndWorkers();
}

void Agent::EndWorkers() {
  for (const ProcessPtr& process : workers_) Signal(process, SIGKILL);
  EndWaiting();
}

void Agent::EndWaiting() {
  for (const auto& [id, process] : std::exchange(waiting_, {})) {
    world_->training.EndWaiting(process);
    pool_.Step(StandbyPool::StandbyEnded{id, "killed"}, Now());
  }
}

void Agent::EndStandbys() {
  for (const StandbyPool::Action& action : pool_.Step(StandbyPool::JobEnded{}, Now())) {
    const auto* const end = std::get_if<StandbyPool::EndStandby>(&action);
    if (end == nullptr) continue;
    world_->training.EndWaiting(waiting_.at(end->id));
    waiting_.erase(end->id);
  }
}

// A waiting process occasionally dies.
void Agent::LetStay(const ProcessPtr& process, LocalRank local_rank) {
  const int waits = world_->training.Adopt(process->worker);
  const std::optional<StandbyPool::Id> id = pool_.Adopt(local_rank, Now());
  if (!id) return world_->training.EndWaiting(waits);
  waiting_.emplace(*id, waits);
  if (!world_->stay_random.Percent(3)) return;
  world_->scheduler.After(world_->stay_random.Wide(1, 500) * kMillisecond, [this, id = *id] {
    if (!waiting_.contains(id)) return;
    world_->training.EndWaiting(waiting_.at(id));
    Post([this, id] {
      if (waiting_.erase(id) > 0) pool_.Step(StandbyPool::StandbyEnded{id, "killed"}, Now());
    });
  });
}

std::optional<int> Agent::TakeSurvivor(LocalRank local_rank) {
  while (const std::optional<StandbyPool::Id> id = pool_.Take(local_rank)) {
    const int process = waiting_.at(*id);
    waiting_.erase(*id);
    if (!world_->training.process(process).alive) continue;
    ++world_->result.handed_over;
    return process;
  }
  return std::nullopt;
}

// ---- from the workers ----

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
    if (!IsIn(local_rank, worker)) return;
    Step(Supervisor::WorkerStays{local_rank});
    Step(Supervisor::WorkerCanStandBy{});
  });
}

// A worker that was signalled meanwhile ends by the signal.
void Agent::OnWorkerLeft(int worker, LocalRank local_rank) {
  Post([this, worker, local_rank] {
    if (!IsIn(local_rank, worker)) return;
    const ProcessPtr process = workers_[static_cast<std::size_t>(local_rank.value)];
    if (!std::exchange(process->leaves, false)) return;
    if (world_->training.worker(worker).left) LetStay(process, local_rank);
    Step(Supervisor::WorkerLeft{local_rank});
  });
}

// Other processes may have replaced one that was given up.
bool Agent::IsIn(LocalRank local_rank, int worker) const {
  const auto place = static_cast<std::size_t>(local_rank.value);
  return place < workers_.size() && workers_[place]->worker == worker;
}

}  // namespace ddprun::sim
