// Supervisor: processes that SIGKILL did not end.
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/core/supervisor.h"

namespace ddprun {

void Supervisor::OnNodeCleared(const NodeCleared& cleared, TimePoint now) {
  if (!outbox_.OnNodeCleared()) return;
  if (!cleared.stuck.empty()) {
    outbox_.PushFirst(Note{absl::StrCat(
        Describe(StuckProcesses{0, cleared.stuck}),
        ended() ? "; this agent ends without it" : "; until it is gone no worker starts here")});
  }
  SetStuck(cleared.stuck, now);
}

void Supervisor::OnStuckProcessEnded(const StuckProcessEnded& ended, TimePoint now) {
  std::vector<StuckProcess> others = stuck_.told.After(now - stuck_.seen_at).processes;
  if (std::erase_if(others, [&](const auto& process) { return process.pid == ended.pid; }) == 0) {
    return;
  }
  Log(absl::StrCat("process ", ended.pid, " is gone, which SIGKILL had not ended"));
  if (state_ == SupervisorState::kJoining) {
    outbox_.Clear(/*always=*/true);  // it may have left something behind; the answer says what
  } else {
    SetStuck(std::move(others), now);
  }
}

void Supervisor::SetStuck(std::vector<StuckProcess> processes, TimePoint now) {
  const bool had_any = !stuck_.told.processes.empty();
  if (processes.empty() && !had_any) return;
  if (processes.size() > StuckProcesses::kMost) processes.resize(StuckProcesses::kMost);
  stuck_ = {{stuck_.told.report + 1, std::move(processes)}, now};
  // The first ones are told with the Join or Stopped that waits for NodeCleared.
  if (had_any && session_.joined && !ended()) SendHeartbeat(now);
}

void Supervisor::AddStuck(std::vector<Action>* actions, TimePoint now) const {
  if (stuck_.told.report == 0) return;
  const StuckProcesses stuck = stuck_.told.After(now - stuck_.seen_at);
  for (Action& action : *actions) {
    auto* const send = std::get_if<Send>(&action);
    if (send == nullptr) continue;
    if (auto* const join = std::get_if<Join>(&send->message)) join->stuck = stuck;
    if (auto* const stopped = std::get_if<Stopped>(&send->message)) stopped->stuck = stuck;
    if (auto* const heartbeat = std::get_if<Heartbeat>(&send->message)) heartbeat->stuck = stuck;
  }
}

}  // namespace ddprun
