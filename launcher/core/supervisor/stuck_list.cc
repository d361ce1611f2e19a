#include "launcher/core/supervisor/stuck_list.h"

#include <utility>

namespace ddprun {

void StuckList::Set(std::vector<StuckProcess> processes, TimePoint now) {
  if (processes.empty() && empty()) return;
  if (processes.size() > StuckProcesses::kMost) processes.resize(StuckProcesses::kMost);
  told_ = {told_.report + 1, std::move(processes)};
  seen_at_ = now;
}

std::optional<std::vector<StuckProcess>> StuckList::Without(int pid, TimePoint now) const {
  std::vector<StuckProcess> others = told_.After(now - seen_at_).processes;
  const bool was_in_it =
      std::erase_if(others, [&](const auto& process) { return process.pid == pid; }) > 0;
  return was_in_it ? std::optional(std::move(others)) : std::nullopt;
}

void StuckList::AddTo(SupervisorActions::Action* action, TimePoint now) const {
  if (told_.report == 0) return;
  const StuckProcesses stuck = told_.After(now - seen_at_);
  if (auto* const beat = std::get_if<SupervisorActions::SendHeartbeat>(action)) {
    beat->heartbeat.stuck = stuck;
  } else if (auto* const send = std::get_if<SupervisorActions::Send>(action)) {
    if (auto* const join = std::get_if<Join>(&send->message)) join->stuck = stuck;
    if (auto* const stopped = std::get_if<Stopped>(&send->message)) stopped->stuck = stuck;
  }
}

}  // namespace ddprun
