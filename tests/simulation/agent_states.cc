// Agent: the states that its node holds, and its disk.
#include <algorithm>
#include <utility>

#include "tests/simulation/agent.h"
#include "tests/simulation/world.h"

namespace ddprun::sim {

void Agent::FillIn(AgentMessage* message) {
  states_.FillIn(message);
  if (world_->bug != Bug::kTimelineForgotten || world_->Leader().machine() == nullptr) return;
  std::vector<SavedState>* states = nullptr;
  if (auto* said = std::get_if<Join>(message)) states = &said->states;
  if (auto* said = std::get_if<Stopped>(message)) states = &said->states;
  if (auto* said = std::get_if<HeldStates>(message)) states = &said->states;
  if (states == nullptr) return;
  for (SavedState& state : *states) state.generation = world_->Leader().machine()->generation();
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

// Feeds the event at once, or when a slow file server answers. Events stay in order.
void Agent::AfterTheDisk(Supervisor::Event event) {
  const bool slow = !world_->plan.benign && world_->random.Percent(3);
  const Time takes = slow ? world_->random.Wide(100, 5000) * kMillisecond
                          : world_->random.Wide(1, 20) * kMillisecond / 10;
  disk_free_at_ = std::max(disk_free_at_, world_->scheduler.now()) + takes;
  world_->scheduler.At(disk_free_at_, [this, event = std::move(event)] { Feed(event); });
}

// Answers at once, or when a slow file server answers. The answer shows the disk at the time of the
// question. If workers were started meanwhile, the answer is dropped.
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

}  // namespace ddprun::sim
