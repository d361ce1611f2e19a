// NodeClearer: kills the processes that workers have left behind, before the agent tells the
// rendezvous that no process is left. NodeClearer watches each process that SIGKILL has not ended,
// until the process is gone.
//
// Most processes end within microseconds of SIGKILL; a process with much memory ends later, and
// some never do. The loop continues meanwhile. Belongs to the loop's thread.
#ifndef DDPRUN_LAUNCHER_AGENT_NODE_CLEARER_H_
#define DDPRUN_LAUNCHER_AGENT_NODE_CLEARER_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/process/process_runner.h"
#include "rendezvous/core/progress.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class NodeClearer {
 public:
  // The processes that SIGKILL has not ended. Unavailable: the guardian is dead, and so are the
  // workers.
  using Done = std::function<void(const absl::StatusOr<std::vector<StuckProcess>>&)>;
  // Called on the loop.
  struct Events {
    std::function<void(pid_t)> ended;               // a watched process has ended
    std::function<void(const absl::Status&)> lost;  // Unavailable, as above
  };

  // Both pointers must outlive this object.
  NodeClearer(EventLoop* loop, ProcessRunner* runner, Events events)
      : loop_(loop), runner_(runner), events_(std::move(events)) {}
  ~NodeClearer();
  NodeClearer(const NodeClearer&) = delete;
  NodeClearer& operator=(const NodeClearer&) = delete;

  // Takes over a worker that SIGKILL has not ended, and reaps it once it ends.
  void Adopt(pid_t pid, UniqueFd pidfd, Rank rank, TimePoint killed_at);
  // The same for a worker that is exiting (worker/contract/process_stat.h).
  void AdoptExiting(pid_t pid, UniqueFd pidfd, Rank rank);

  struct How {
    bool is_late = false;  // tries once only, because these processes have had their time to end
    // Does not wait for exiting workers that have no children.
    bool may_be_exiting = false;
  };
  // Calls `done` once, at the latest after 2 s: when all processes that workers left behind have
  // ended, and all exiting workers that must be awaited. If the guardian reports an error, calls
  // `done` at once.
  void Clear(How how, Done done);

  // Call it when the guardian is dead: then all watched processes are dead, too.
  void Forget();

 private:
  struct Stuck {
    UniqueFd pidfd;
    std::optional<Rank> rank;  // not set: a process that a worker left behind; the guardian reaps
                               // it
    TimePoint killed_at;
    bool exiting = false;
  };

  void Try();
  bool Awaits(pid_t pid, const Stuck& stuck) const;
  bool AwaitsExiting() const;
  void Watch(pid_t pid, Stuck stuck);
  // `pids`: all processes that workers have left behind.
  void SetLeftBehind(const std::vector<pid_t>& pids);
  std::vector<StuckProcess> List() const;
  void OnEnded(pid_t pid);

  EventLoop* const loop_;
  ProcessRunner* const runner_;
  const Events events_;
  TimePoint began_at_;
  TimePoint until_;
  EventLoop::TimerId again_ = 0;
  Done done_;  // null: no Clear() is in progress
  bool may_be_exiting_ = false;
  std::map<pid_t, Stuck> stuck_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_NODE_CLEARER_H_
