#include "launcher/core/node_states.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace ddprun {

void NodeStates::OnSnapshot(std::uint32_t requeue_number, Generation generation,
                            std::int64_t step) {
  memory_ = SavedState{requeue_number, generation, step, Tier::kMemory};
}

void NodeStates::OnCheckpoint(std::uint32_t requeue_number, Generation generation,
                              std::int64_t step, const std::string& path) {
  std::erase_if(files_, [&](const SavedFile& file) { return file.path == path; });
  const SavedState state{requeue_number, generation, step, Tier::kDurable};
  // Newest first, even if a generation went back to an earlier step.
  files_.insert(files_.begin(), {state, path});
  if (files_.size() > kMaxSavedStates) files_.pop_back();
}

void NodeStates::OnFound(std::vector<SavedFile> files, bool incomplete) {
  files_ = std::move(files);
  incomplete_ = incomplete;
}

void NodeStates::OnStarted(const RestorePlan& plan) {
  if (memory_ && memory_->step > plan.step()) memory_.reset();
  std::erase_if(files_, [&](const SavedFile& file) { return file.state.step > plan.step(); });
}

std::vector<SavedState> NodeStates::List() const {
  std::vector<SavedState> states;
  if (memory_) states.push_back(*memory_);
  for (const SavedFile& file : files_) {
    if (states.size() == kMaxSavedStates) break;
    states.push_back(file.state);
  }
  std::stable_sort(states.begin(), states.end(),
                   [](const SavedState& a, const SavedState& b) { return a.step > b.step; });
  return states;
}

void NodeStates::FillIn(AgentMessage* message) {
  if (auto* join = std::get_if<Join>(message)) {
    join->states = told_ = List();
    join->states_incomplete = incomplete_;
  } else if (auto* stopped = std::get_if<Stopped>(message)) {
    stopped->states = told_ = List();
    stopped->states_incomplete = incomplete_;
  } else if (auto* held = std::get_if<HeldStates>(message)) {
    held->states = told_ = List();
    held->states_incomplete = incomplete_;
  } else if (auto* heartbeat = std::get_if<Heartbeat>(message)) {
    if (std::vector<SavedState> now = List(); now != told_) heartbeat->states = told_ = now;
  }
}

}  // namespace ddprun
