// StartWatch: how long the workers of this node take until they are at work, whatever program they
// are: so that a crash soon after the start can be told from one in the middle of the work.
//
// A start is over when every worker has told so (a step, ddp::init() is done), when as many
// connections to MASTER_PORT are open from this host as it has workers, or when the workers have
// used as much CPU time as in the last start. The latter two are looked at again and again, at
// intervals that grow with the time: so the result is at most a quarter too long.
//
// A job of one worker may never connect to anything. So its start counts as 5 s, until one of these
// signs comes after all.
//
// Belongs to the agent's loop and is used from its thread; reads small files of /proc, which never
// wait for a disk.
#ifndef DDPRUN_LAUNCHER_AGENT_START_WATCH_H_
#define DDPRUN_LAUNCHER_AGENT_START_WATCH_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/string_view.h"
#include "launcher/os/event_loop.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// Of /proc/net/tcp or tcp6: how many connections are established to this port, of whichever host.
int CountConnectionsTo(int port, absl::string_view proc_net_tcp);
// Of /proc/PID/stat: the clock ticks that the process and the children it waited for have used.
std::int64_t CpuTicks(absl::string_view proc_pid_stat);

class StartWatch {
 public:
  using Done = std::function<void(Generation, Duration)>;
  using Pids = std::function<std::vector<pid_t>()>;  // of the workers that run now

  // `loop` must outlive this object. `done` is called on the loop, once for each start that ends;
  // for a job's only worker also after `assumed` without a sign.
  StartWatch(EventLoop* loop, int workers, Pids pids, Done done,
             Duration assumed = std::chrono::seconds(5));
  ~StartWatch() { End(); }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

  // The workers of this generation are about to be spawned. `alone`: one in the whole job.
  void Begin(Generation generation, int master_port, bool alone);
  void OnAtWork(LocalRank local_rank);
  // They end.
  void End();

 private:
  void PollLater();
  void Poll();
  void Complete();
  std::int64_t CpuUsed() const;

  EventLoop* const loop_;
  const int workers_;
  const Pids pids_;
  const Done done_;
  const Duration assumed_;  // start of a job's only worker

  std::optional<EventLoop::TimerId> timer_;  // while a start is going on
  Generation generation_;
  int master_port_ = 0;
  bool assume_ = false;  // once assumed_ has passed
  EventLoop::Clock::time_point began_;
  Duration interval_{};
  std::set<LocalRank> at_work_;
  std::optional<std::int64_t> cpu_of_last_;  // CpuUsed() at the end of the last start
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_START_WATCH_H_
