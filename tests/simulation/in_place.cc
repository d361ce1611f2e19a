// InPlace: the beginning of a generation, and its steps. in_place_end.cc has its end.
#include "tests/simulation/in_place.h"

#include <utility>

#include "tests/simulation/world.h"
#include "worker/src/storage/own_state.h"

namespace ddprun::sim {

using ddp::internal::OwnState;
using ddp::internal::StampedStep;

const Worker& InPlace::Of(int worker) const { return training_->worker(worker); }

std::vector<int> InPlace::MembersOf(const Group& group) const {
  std::vector<int> members;
  for (const int id : training_->alive()) {
    if (Of(id).group == &group) members.push_back(id);
  }
  return members;
}

// A stuck worker runs the task when it is no longer stuck.
void InPlace::Later(int id, Time delay, std::function<void()> task) {
  const int turn = ++trainees_.at(id).turn;
  world_->scheduler.After(delay, [this, id, turn, task = std::move(task)] {
    if (!Of(id).alive || trainees_.at(id).turn != turn) return;
    if (Of(id).stuck) {
      trainees_.at(id).resume = task;
    } else {
      task();
    }
  });
}

void InPlace::Resume(int id) {
  if (!trainees_.contains(id)) return;
  if (const auto task = std::exchange(trainees_.at(id).resume, nullptr)) task();
}

// ---- the beginning ----

void InPlace::Begin(Group* group) {
  const std::vector<int> members = MembersOf(*group);
  world_->live_checker.OnTogether(*group, members);
  for (const int id : members) {
    trainees_.try_emplace(id);
    training_->process(Of(id).process).watch.Forget();
    world_->scheduler.After(world_->stay_random.Wide(1, 60) * kMillisecond, [this, id] {
      if (Of(id).alive) Of(id).agent->OnWorkerStays(id, Of(id).local_rank);
    });
  }
  world_->scheduler.After(world_->stay_random.Wide(1, 50) * kMillisecond,
                          [this, group] { Load(group); });
}

// A collective: it ends when the last worker has arrived.
void InPlace::Load(Group* group) {
  const std::vector<int> members = MembersOf(*group);
  if (group->broken || static_cast<int>(members.size()) < group->world_size) return;
  for (const int id : members) {
    if (trainees_.at(id).phase != Phase::kLoads || trainees_.at(id).asked) return;
    if (!Of(id).stuck) continue;
    trainees_.at(id).resume = [this, group] { Load(group); };
    return;
  }
  for (const int id : members) {
    const Worker& worker = Of(id);
    WholeState state;
    state.step = group->step;
    const std::optional<int> source = SourceFor(worker);
    world_->live_checker.OnSource(worker, source);
    if (source) {
      if (auto found = Read(*group, *source, *group->restore->state)) {
        state = *std::move(found);
      } else {
        world_->live_checker.OnMissing(*group);
      }
    }
    StartWith(worker, state);
  }
  if (group->step < world_->plan.total_steps) {
    for (const int id : members) Compute(id);
    return;
  }
  group->due = training_->TakeDue(group, group->step);
  for (const int id : members) trainees_.at(id).phase = Phase::kSaves;
  SaveTogether(group);
}

std::optional<int> InPlace::SourceFor(const Worker& worker) const {
  const std::optional<RestorePlan>& plan = worker.group->restore;
  if (!plan || !plan->state) return std::nullopt;
  const bool survivor = training_->process(worker.process).generations > 1;
  if (world_->bug == Bug::kTwoSources && survivor &&
      worker.agent->memory().NewestStep() == plan->step()) {
    return worker.rank.value;  // it holds the state itself
  }
  return plan->source.value;
}

std::optional<WholeState> InPlace::Read(const Group& group, int source,
                                        const SavedState& state) const {
  if (state.tier == Tier::kDurable) {
    const auto found = durable_.find({state.requeue_number, state.generation.value, state.step});
    if (found == durable_.end()) return std::nullopt;
    return found->second;
  }
  for (const int id : MembersOf(group)) {
    if (Of(id).rank.value != source) continue;
    const WholeState* const found =
        Of(id).agent->memory().Find(state.requeue_number, state.generation, state.step);
    if (found != nullptr) return *found;
  }
  return std::nullopt;
}

void InPlace::StartWith(const Worker& worker, const WholeState& state) {
  Trainee& self = trainees_.at(worker.id);
  const int rank = worker.rank.value;
  self.state = {state.step, state.parameters, Mixed(7, static_cast<Digest>(rank)), state.buffers};
  if (static_cast<std::size_t>(rank) < state.generators.size()) {
    self.state.generator = state.generators[static_cast<std::size_t>(rank)];
  }
  NodeMemory& memory = worker.agent->memory();
  if (state.at_the_end) ++world_->result.live_restores;
  if (state.at_the_end && memory.HasPlacesOf(rank)) {
    const std::int64_t generation = state.generation.value;
    auto own = OwnState::Unpack(memory.PlacesOf(rank).Find({generation, state.step}));
    if (world_->bug == Bug::kSlotOfAnotherStep) {
      auto next = OwnState::Unpack(memory.PlacesOf(rank).Find({generation, state.step + 1}));
      if (next) own = next;
    }
    if (own) self.state.generator = DigestOf(own->generator);
  }
  if (state.generation.value >= 0 && memory.HasPlacesOf(rank)) {
    memory.PlacesOf(rank).Keep({state.generation.value, state.step});
  }
  self.older = state.generators;
  StepRecord& record = worker.group->records[state.step];
  record.buffers = state.buffers;
  record.parameters = state.parameters;
  record.generators[rank] = self.state.generator;
  world_->live_checker.OnBegan(worker, self.state);
}

// ---- a step ----

// Forward and backward.
void InPlace::Compute(int id) {
  Trainee& self = trainees_.at(id);
  self.phase = Phase::kComputes;
  const Time whole = world_->plan.step_time;
  Later(id, world_->stay_random.Between(whole / 8, whole * 2 / 5),
        [this, id] { LeaveOwnState(id); });
}

// A kill may come before, during or after the write of its place.
void InPlace::LeaveOwnState(int id) {
  const Worker& worker = Of(id);
  Trainee& self = trainees_.at(id);
  const auto rank = static_cast<Digest>(worker.rank.value);
  RankState& next = self.next;
  next.step = self.state.step + 1;
  next.generator = Mixed(self.state.generator, static_cast<Digest>(next.step));
  // Every rank begins with rank 0's buffers of the previous step.
  const Digest before = worker.group->records[self.state.step].buffers;
  next.buffers = world_->plan.buffers ? Mixed(Mixed(before, next.generator), rank) : 0;
  if (world_->plan.states) {
    const StampedStep step{worker.group->generation.value, next.step};
    worker.agent->memory().PlacesOf(worker.rank.value).Begin(step);
  }
  Later(id, world_->stay_random.Wide(1, 5000) * 1000, [this, id] { EnterAverage(id); });
}

void InPlace::EnterAverage(int id) {
  const Worker& worker = Of(id);
  Group& group = *worker.group;
  Trainee& self = trainees_.at(id);
  const int rank = worker.rank.value;
  if (world_->plan.states) {
    const OwnState own{BytesOf(self.next.generator),
                       world_->plan.buffers ? BytesOf(self.next.buffers) : ""};
    worker.agent->memory().PlacesOf(rank).Put({group.generation.value, self.next.step},
                                              own.Packed());
  }
  self.phase = Phase::kAverages;
  StepRecord& record = group.records[self.next.step];
  record.generators[rank] = self.next.generator;
  if (rank == 0) record.buffers = self.next.buffers;
  if (self.asked || group.broken) return Fail(id);
  record.gradients += Mixed(Mixed(self.state.parameters, self.next.generator),
                            Mixed(self.next.buffers, static_cast<Digest>(rank)));
  ++record.entered;
  const std::vector<int> members = MembersOf(group);
  const bool all =
      record.entered == group.world_size && static_cast<int>(members.size()) == group.world_size;
  if (!all) return;
  // Some workers get the last bytes long before others. A step takes at most `step_time`.
  for (const int member : members) {
    const Time takes = world_->stay_random.Percent(90)
                           ? world_->stay_random.Wide(10, 5000) * 1000
                           : world_->stay_random.Between(0, world_->plan.step_time * 3 / 8);
    Later(member, takes, [this, member] { BeginOptimizer(member); });
  }
}

void InPlace::BeginOptimizer(int id) {
  Trainee& self = trainees_.at(id);
  ddp::internal::ParameterWatch& watch = training_->process(Of(id).process).watch;
  watch.GradientsAreAveraged();
  if (world_->plan.tells_optimizer) watch.OptimizerStepBegins();
  self.phase = Phase::kOptimizer;
  const Digest whole = self.state.parameters;
  self.state.parameters = Mixed(whole, 0x4A1F);  // until the optimizer's step is complete
  self.next.parameters = Mixed(whole, Of(id).group->records[self.next.step].gradients);
  const Time longest = world_->plan.step_time / 10;
  Later(id, world_->stay_random.Between(longest / 10, longest), [this, id] { Finish(id); });
}

void InPlace::Finish(int id) {
  const Worker& worker = Of(id);
  Group& group = *worker.group;
  Trainee& self = trainees_.at(id);
  self.state = self.next;
  StepRecord& record = group.records[self.state.step];
  world_->live_checker.OnFinished(worker, self.state, &record);
  ++record.finished;
  training_->process(worker.process).watch.StepIsFinished();
  if (!self.finished && worker.local_rank.value == 0 && world_->plan.states) {
    NodeMemory& memory = worker.agent->memory();
    if (memory.turn < 0) memory.turn = id;
    if (memory.turn == id) memory.TakeOver(group.restore ? group.restore->step() : -1);
  }
  self.finished = true;
  training_->TellStep(worker, self.state.step);
  if (!worker.alive) return;
  if (self.asked || group.broken) return Fail(id);
  if (record.finished == 1) group.due = training_->TakeDue(&group, self.state.step);
  if (!group.due.any()) return Compute(id);
  self.phase = Phase::kSaves;  // until all have arrived: their generators are gathered
  if (record.finished == group.world_size) SaveTogether(&group);
}

void InPlace::SaveTogether(Group* group) {
  const std::vector<int> members = MembersOf(*group);
  if (static_cast<int>(members.size()) < group->world_size) return;
  group->step = trainees_.at(members.front()).state.step;
  const Due due = group->due;
  const WholeState state = FinishedByAll(*group);
  if (due.checkpoint) durable_[{state.requeue_number, state.generation.value, state.step}] = state;
  for (const int id : members) trainees_.at(id).older = state.generators;
  training_->Keep(*group, due, state);
  for (const int id : members) {
    if (!Of(id).alive) continue;
    if (due.last) {
      training_->EndWell(id);
    } else if (trainees_.at(id).phase == Phase::kSaves) {
      Compute(id);
    }
  }
}

WholeState InPlace::FinishedByAll(const Group& group) const {
  const StepRecord& record = group.records.at(group.step);
  WholeState state{group.requeue_number, group.generation, group.step, *record.parameters,
                   record.buffers};
  for (const auto& [rank, generator] : record.generators) state.generators.push_back(generator);
  return state;
}

}  // namespace ddprun::sim
