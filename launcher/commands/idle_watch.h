// IdleWatch: ends a rendezvous that was started for one job (`ddprun rendezvous --until-idle`).
//
// Quits the loop when no session and no job is left, at once after a job, else after `patience`. Of
// a job that knows its nodes those that have not come yet get a while to hear of its end: a spare
// may be slower than a short job. An agent that comes while we end is told so, and starts the next
// rendezvous.
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
  // `starter` is the agent that we were started for. We may have been so slow that another
  // rendezvous has served its job meanwhile, and left us the port: then nobody comes any more.
  // `loop` must outlive this object.
  IdleWatch(EventLoop* loop, std::chrono::milliseconds patience, std::optional<pid_t> starter);
  ~IdleWatch();
  IdleWatch(const IdleWatch&) = delete;
  IdleWatch& operator=(const IdleWatch&) = delete;

  bool ended() const { return ended_; }  // because of it

  // SIGTERM: from now on it waits for nobody. Who is connected goes on: Slurm, for one, signals all
  // processes of a step, the agents and their rendezvous, and the agents need it to end in order.
  void EndSoon();

  void OnLoad(const JobLoopLoad& load);

 private:
  void OnStarterEnded();
  void WaitForNoFirstJob();

  EventLoop* const loop_;
  std::chrono::milliseconds patience_;
  std::chrono::milliseconds for_late_agents_{10'000};
  UniqueFd starter_;  // a pidfd, until it has ended
  JobLoopLoad load_;
  EventLoop::TimerId timer_ = 0;
  bool ended_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_IDLE_WATCH_H_
