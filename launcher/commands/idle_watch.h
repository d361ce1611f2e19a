// IdleWatch: ends a rendezvous that was started for one job (`ddprun rendezvous --until-idle`).
//
// Quits the loop when no session and no job is left: at once after a job, else after `patience`. If
// agents of an ended job do not know its end yet, it waits up to 10 s for them. For example, a
// spare may start only after a short job has ended. If an agent connects while this process ends,
// this process refuses the agent and gives the reason. The agent then starts the next rendezvous.
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
  // `starter`: the agent that started this rendezvous. If this process starts very late, another
  // rendezvous may already have served the job, and no agent comes. So when `starter` has ended,
  // this object does not wait any longer for a first job. `loop` must outlive this object.
  IdleWatch(EventLoop* loop, std::chrono::milliseconds patience, std::optional<pid_t> starter);
  ~IdleWatch();
  IdleWatch(const IdleWatch&) = delete;
  IdleWatch& operator=(const IdleWatch&) = delete;

  bool ended() const { return ended_; }  // this object has quit the loop

  // Call it at SIGTERM: from now on the rendezvous does not wait for new sessions. Open sessions
  // continue: Slurm signals all processes of a step, and without the rendezvous the agents cannot
  // end properly.
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
