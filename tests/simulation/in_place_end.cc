// InPlace: how a worker leaves its generation.
#include <string>
#include <utility>

#include "tests/simulation/in_place.h"
#include "tests/simulation/world.h"
#include "worker/src/storage/own_state.h"

namespace ddprun::sim {
namespace {

// Like the library: the limits of waiting for LEAVE after a failed collective, and for the turn to
// make a snapshot.
constexpr Time kPatience = 5 * kSecond;
constexpr Time kTurn = 300 * kMillisecond;

}  // namespace

using ddp::internal::LeftGenerator;
using ddp::internal::OwnState;

void InPlace::AskToLeave(int id) {
  if (!Of(id).alive || !trainees_.contains(id)) return;
  if (world_->stay_random.Percent(5)) return;  // its body does not return
  Trainee& self = trainees_.at(id);
  if (std::exchange(self.asked, true)) return;
  switch (self.phase) {
    case Phase::kComputes:  // its next collective fails
    case Phase::kUnwinds:
      break;
    case Phase::kOptimizer:  // like kComputes, unless the optimizer has collectives
      if (world_->stay_random.Percent(30)) Later(id, 0, [this, id] { Fail(id); });
      break;
    case Phase::kLoads:
    case Phase::kAverages:
    case Phase::kSaves:
      Later(id, world_->stay_random.Wide(1, 20) * kMillisecond, [this, id] { Fail(id); });
      break;
    case Phase::kWaits:
      Later(id, 0, [this, id] { Unwind(id); });
      break;
  }
}

void InPlace::OnPeerGone(Group* group) {
  for (const int id : MembersOf(*group)) {
    const auto found = trainees_.find(id);
    if (found == trainees_.end()) continue;  // it has not met the other workers yet
    const Phase phase = found->second.phase;
    const bool done = phase == Phase::kAverages &&
                      group->records[found->second.next.step].entered == group->world_size;
    if (phase != Phase::kLoads && phase != Phase::kAverages && phase != Phase::kSaves) continue;
    if (done && world_->stay_random.Percent(50)) continue;  // it has received all data
    if (world_->stay_random.Percent(10)) continue;          // it does not notice
    Later(id, world_->stay_random.Wide(1, 500) * kMillisecond, [this, id] { Fail(id); });
  }
}

void InPlace::OnGone(const Worker& worker) {
  NodeMemory& memory = worker.agent->memory();
  if (memory.turn == worker.id) memory.turn = -1;
}

void InPlace::Fail(int id) {
  Trainee& self = trainees_.at(id);
  if (self.asked) return Unwind(id);
  self.phase = Phase::kWaits;
  Later(id, kPatience, [this, id] { training_->End(id, ExitStatus{1}, " (collective)"); });
}

// Its sockets are closed, so the others notice.
void InPlace::Unwind(int id) {
  Trainee& self = trainees_.at(id);
  self.phase = Phase::kUnwinds;
  training_->Break(Of(id).group);
  Later(id, world_->stay_random.Wide(1, 300) * kMillisecond, [this, id] {
    const std::optional<WholeState> state = Take(id);
    if (!state) return Left(id);
    AwaitTurn(id, *state, world_->scheduler.now() + kTurn);
  });
}

// LiveState::Take().
std::optional<WholeState> InPlace::Take(int id) const {
  const Worker& worker = Of(id);
  const Group& group = *worker.group;
  const Trainee& self = trainees_.at(id);
  const bool whole =
      training_->process(worker.process).watch.whole() || world_->bug == Bug::kHalfStepAsSource;
  if (!world_->plan.states || !self.finished || !whole) return std::nullopt;
  const std::int64_t generation = group.generation.value;
  NodeMemory& memory = worker.agent->memory();
  const auto left = [&](int rank) -> LeftGenerator {
    if (!memory.HasPlacesOf(rank)) return {};
    const auto places = memory.PlacesOf(rank);
    const auto own = OwnState::Unpack(places.Find({generation, self.state.step}));
    return {own ? std::optional(own->generator) : std::nullopt, places.HasAnyOf(generation)};
  };
  const auto older = [&](int rank) {
    const auto place = static_cast<std::size_t>(rank);
    return place < self.older.size() ? BytesOf(self.older[place]) : std::string();
  };
  const auto generators = ddp::internal::GeneratorsAtStep(group.world_size, left, older);
  if (!generators) return std::nullopt;
  WholeState state{group.requeue_number, group.generation, self.state.step, self.state.parameters};
  state.at_the_end = true;
  for (const std::string& one : *generators) state.generators.push_back(DigestOf(one));
  if (!world_->plan.buffers) return state;
  if (!memory.HasPlacesOf(0)) return std::nullopt;
  const auto rank0 = OwnState::Unpack(memory.PlacesOf(0).Find({generation, state.step}));
  if (!rank0) return std::nullopt;
  state.buffers = DigestOf(rank0->buffers);
  return state;
}

// MakeEndSnapshot().
void InPlace::AwaitTurn(int id, const WholeState& state, Time until) {
  NodeMemory& memory = Of(id).agent->memory();
  if (memory.turn >= 0 && memory.turn != id) {
    if (world_->scheduler.now() < until) {
      Later(id, kMillisecond, [this, id, state, until] { AwaitTurn(id, state, until); });
      return;
    }
    trainees_.at(id).in_time = false;
    return Left(id);
  }
  memory.turn = id;
  if (memory.NewestStep() >= state.step) return Left(id);
  Later(id, world_->stay_random.Wide(1, 100) * kMillisecond,
        [this, id, state] { Publish(id, state); });
}

void InPlace::Publish(int id, const WholeState& state) {
  const Worker& worker = Of(id);
  worker.agent->memory().Publish(state);
  ++world_->result.end_snapshots;
  const SavedState saved{state.requeue_number, state.generation, state.step, Tier::kMemory};
  const auto tell = [agent = worker.agent, local = worker.local_rank, saved] {
    agent->OnSaved(local, saved, "");
  };
  if (world_->bug == Bug::kLeftBeforeItsSnapshot) {
    Left(id);
    world_->scheduler.After(200 * kMillisecond, tell);
    return;
  }
  tell();
  Left(id);
}

bool InPlace::CanKeepItsStep(int id) const {
  const Worker& worker = Of(id);
  const Group& group = *worker.group;
  const Trainee& self = trainees_.at(id);
  if (!world_->plan.states || !self.finished || !self.in_time) return false;
  const bool half = self.state.parameters != group.records.at(self.state.step).parameters;
  if (half) return false;
  const auto is_here = [&](int rank) { return group.agents.at(rank) == worker.agent; };
  for (int rank = 0; rank < group.world_size; ++rank) {
    if (!is_here(rank) && static_cast<std::size_t>(rank) >= self.older.size()) return false;
  }
  return !world_->plan.buffers || is_here(0);
}

void InPlace::Left(int id) {
  const Worker& worker = Of(id);
  if (CanKeepItsStep(id)) world_->live_checker.OnKept(worker, trainees_.at(id).state.step);
  training_->Leave(id);
}

}  // namespace ddprun::sim
