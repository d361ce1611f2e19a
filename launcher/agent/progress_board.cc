#include "launcher/agent/progress_board.h"

#include <utility>
#include <vector>

#include "launcher/node/process_facts.h"
#include "worker/contract/control.h"

namespace ddprun {
namespace {

// What a Python program is in outside of all that it names.
constexpr char kTraining[] = "train";

}  // namespace

void ProgressBoard::Begin() {
  entries_.clear();
  watch_ = ProgressWatch(heartbeat_);
}

void ProgressBoard::OnStep(LocalRank local_rank, std::int64_t step) {
  Entry& entry = entries_[local_rank];
  ++entry.moves;
  entry.step = step;
  // What the library names comes before the first step.
  if (control::IsPhaseOfTheLibrary(entry.phase)) entry.phase.clear();
}

void ProgressBoard::OnPhase(LocalRank local_rank, const std::string& name) {
  Entry& entry = entries_[local_rank];
  ++entry.moves;
  entry.phase = name == kTraining ? "" : name;
}

void ProgressBoard::OnMove(LocalRank local_rank) { ++entries_[local_rank].moves; }

void ProgressBoard::OnBye(LocalRank local_rank) { entries_[local_rank].bye = true; }

NodeProgress ProgressBoard::Look(const PidOf& pid_of, TimePoint now) {
  std::vector<SeenWorker> workers;
  for (const auto& [local_rank, entry] : entries_) {
    const std::optional<int> pid = entry.bye ? std::nullopt : pid_of(local_rank);
    if (!pid) continue;
    workers.push_back({local_rank, *pid, entry.moves, entry.step, entry.phase, std::nullopt});
  }
  return watch_.Look(workers, now, [](int pid) { return ReadProcessFacts(pid); });
}

}  // namespace ddprun
