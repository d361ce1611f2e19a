// StuckList: the processes of this node that SIGKILL did not end. The rendezvous holds the node
// back until they are gone. Pure.
#ifndef DDPRUN_LAUNCHER_CORE_SUPERVISOR_STUCK_LIST_H_
#define DDPRUN_LAUNCHER_CORE_SUPERVISOR_STUCK_LIST_H_

#include <optional>
#include <vector>

#include "launcher/core/supervisor/actions.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class StuckList {
 public:
  bool empty() const { return told_.processes.empty(); }
  void Set(std::vector<StuckProcess> processes, TimePoint now);
  // The list without this process; nullopt: not in the list.
  std::optional<std::vector<StuckProcess>> Without(int pid, TimePoint now) const;
  // Adds the list to a Join, Stopped or Heartbeat; leaves other actions unchanged.
  void AddTo(SupervisorActions::Action* action, TimePoint now) const;

 private:
  StuckProcesses told_;
  TimePoint seen_at_;  // the time of told_
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_STUCK_LIST_H_
