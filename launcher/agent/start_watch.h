// StartWatch: measures how long the workers of this node take until they are at work, for any
// program. With it, a crash during the start can be distinguished from a crash during the work.
//
// A start is over at the first of three signs: every worker has reported a step or the end of
// ddp::init(); this host has as many open connections to MASTER_PORT as workers; the workers have
// used as much CPU time as in the last start. The last two signs are polled at growing intervals,
// so the result is too long by at most a quarter or 100 ms, whichever is more.
//
// The worker of a one-worker job may never open a connection. So after 5 s without a sign, its
// start counts as 5 s. A later sign corrects this.
//
// Belongs to the loop's thread. Reads small files of /proc, which never wait for a disk.
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

// Counts the established connections to this port on any host, in a text of /proc/net/tcp or tcp6.
int CountConnectionsTo(int port, absl::string_view proc_net_tcp);
// The clock ticks used by the process and its reaped children, from a text of /proc/PID/stat.
std::int64_t CpuTicks(absl::string_view proc_pid_stat);

class StartWatch {
 public:
  using Done = std::function<void(Generation, Duration)>;
  using Pids = std::function<std::vector<pid_t>()>;  // of the running workers

  // `loop` must outlive this object. `done` is called on the loop, once for each start that ends.
  // For a job's only worker it is also called when `assumed` has passed without a sign.
  StartWatch(EventLoop* loop, int workers, Pids pids, Done done,
             Duration assumed = std::chrono::seconds(5));
  ~StartWatch() { End(); }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

  // The workers of this generation are about to be spawned. `alone`: the job has one worker.
  void Begin(Generation generation, int master_port, bool alone);
  void OnAtWork(LocalRank local_rank);
  // The workers end.
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
  bool assume_ = false;  // true: report assumed_ if it passes without a sign
  EventLoop::Clock::time_point began_;
  Duration interval_{};
  std::set<LocalRank> at_work_;
  std::optional<std::int64_t> cpu_of_last_;  // CpuUsed() at the end of the last start
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_START_WATCH_H_
