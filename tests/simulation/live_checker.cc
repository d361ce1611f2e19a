#include "tests/simulation/live_checker.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/simulation/world.h"

namespace ddprun::sim {
namespace {

std::string Text(const Worker& worker) {
  return absl::StrCat("rank ", worker.rank.value, " (worker ", worker.id, " of ",
                      worker.agent->Name(), ") of generation ", worker.group->generation.value);
}

}  // namespace

bool LiveChecker::Checks(const Group& group) const {
  return group.life == 1 && !world_->plan.forgets() &&
         world_->bug != Bug::kNoAgentIdCheck;  // the bug mixes up members
}

void LiveChecker::OnStarted(const Worker& worker, Rank first) {
  const int rank = first.value + worker.local_rank.value;
  if (worker.rank.value == rank) return;
  world_->Violation(absl::StrCat("a worker joins with the rank of an older generation: ",
                                 Text(worker), ", and its place is rank ", rank));
}

void LiveChecker::OnTogether(const Group& group, const std::vector<int>& members) {
  std::set<int> ranks;
  for (const int id : members) ranks.insert(world_->training.worker(id).rank.value);
  const int world_size = group.world_size;
  if (static_cast<int>(ranks.size()) == world_size && *ranks.rbegin() == world_size - 1) return;
  world_->Violation(absl::StrCat("generation ", group.generation.value, " begins with ",
                                 members.size(), " workers that are not its ranks 0 to ",
                                 world_size - 1));
}

void LiveChecker::OnSource(const Worker& worker, std::optional<int> source) {
  const auto [first, fresh] = sources_.emplace(worker.group, source);
  if (fresh || first->second == source) return;
  world_->Violation(absl::StrCat("two sources of one state: ", Text(worker), " takes it from rank ",
                                 source.value_or(-1), ", others from rank ",
                                 first->second.value_or(-1)));
}

void LiveChecker::OnMissing(const Group& group) {
  if (!Checks(group)) return;
  world_->Violation(absl::StrCat("generation ", group.generation.value, " ",
                                 Describe(*group.restore),
                                 ", and the source does not have that state"));
}

void LiveChecker::OnBegan(const Worker& worker, const RankState& state) {
  const Group& group = *worker.group;
  if (!Checks(group) || !group.restore || !group.restore->state) return;
  const SavedState& planned = *group.restore->state;
  const Group* const maker =
      world_->training.FindGroup(group.life, planned.requeue_number, planned.generation);
  if (maker == nullptr) return;  // made before this job
  const std::string where = absl::StrCat(Text(worker), " begins at step ", state.step, ", and ",
                                         Describe(*group.restore));
  const auto record = maker->records.find(planned.step);
  if (state.step != planned.step || record == maker->records.end()) {
    world_->Violation(absl::StrCat("a rank begins with another step: ", where));
    return;
  }
  const StepRecord& truth = record->second;
  if (state.parameters != truth.parameters) {
    world_->Violation(absl::StrCat("wrong parameters: ", where));
  }
  if (state.buffers != truth.buffers) world_->Violation(absl::StrCat("wrong buffers: ", where));
  // The state was lost with a node or is no longer kept, so the plan has an older one.
  const std::pair maker_of_planned(planned.requeue_number, planned.generation);
  auto& newest = began_with_[{worker.agent->id(), worker.rank.value}];
  newest = std::max(newest, maker_of_planned);
  const auto agent = maker->agents.find(worker.rank.value);
  if (agent == maker->agents.end() || agent->second != worker.agent) return;
  if (newest > maker_of_planned) return;
  if (state.generator != truth.generators.at(worker.rank.value)) {
    world_->Violation(absl::StrCat("wrong generator: ", where));
  }
}

void LiveChecker::OnFinished(const Worker& worker, const RankState& state, StepRecord* record) {
  if (!record->parameters) record->parameters = state.parameters;
  if (record->parameters == state.parameters) return;
  world_->Violation(absl::StrCat("replicas differ: ", Text(worker), " after step ", state.step));
}

void LiveChecker::OnKept(const Worker& worker, std::int64_t step) {
  const Group& group = *worker.group;
  if (!Checks(group)) return;
  const SavedState state{group.requeue_number, group.generation, step, Tier::kMemory};
  const auto [kept, fresh] = kept_.emplace(worker.agent->id(), state);
  const bool older = kept->second.generation < state.generation;
  if (!fresh && (older || kept->second.step < step)) kept->second = state;
}

std::optional<SavedState> LiveChecker::TakeKept(int agent) {
  const auto kept = kept_.extract(agent);
  return kept.empty() ? std::nullopt : std::optional(kept.mapped());
}

}  // namespace ddprun::sim
