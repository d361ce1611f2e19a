// IdleWatch: ends a rendezvous that was started for one job (`ddprun rendezvous --until-idle`).
//
// Quits the loop when no session and no job is left: at once if a job has ended, else after
// `patience`. But if a job knows its node count and some nodes have not come yet, it waits up to 10
// s for them, so that they learn of the job's end: a spare may be slower than a short job. An agent
// that connects while this process ends is told about the end, and starts the next rendezvous.
//
// The loop's thread only.
#ifndef DDPRUN_LAUNCHER_COMMANDS_IDLE_WATCH_H_
#define DDPRUN_LAUNCHER_COMMANDS_IDLE_WATCH_H_

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "launcher/os/event_loop.h"
#include "rendezvous/service/job/job_loop.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class IdleWatch {
 public:
  // `starter`: the agent that started this rendezvous. If this process started so slowly that
  // another rendezvous has served the job and freed the port, no agent will ever come; then the end
  // of `starter` ends it. `loop` must outlive this object.
  IdleWatch(EventLoop* loop, std::chrono::milliseconds patience, std::optional<pid_t> starter);
  ~IdleWatch();
  IdleWatch(const IdleWatch&) = delete;
  IdleWatch& operator=(const IdleWatch&) = delete;

  bool ended() const { return ended_; }  // this object has quit the loop

  // SIGTERM: from now on it does not wait for new sessions. Open sessions continue: Slurm, for
  // example, signals all processes of a step, the agents and their rendezvous, and the agents need
  // the rendezvous to end in order.
  void EndSoon();

  void OnLoad(const JobLoopLoad& load);

 private:
  void OnStarterEnded();
  void WaitForNoFirstJob();

  EventLoop* const loop_;
  std::chrono::milliseconds patience_;
  std::chrono::milliseconds for_late_agents_{10'000};
  UniqueFd starter_;  // pidfd of the starter, until the starter has ended
  JobLoopLoad load_;
  EventLoop::TimerId timer_ = 0;
  bool ended_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_IDLE_WATCH_H_
