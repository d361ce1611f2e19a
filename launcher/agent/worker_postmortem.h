// What can be learnt about a worker's death from outside of it, beside its exit status.
//
// Used from the agent's thread when a worker has ended; reads small files and never waits.
#ifndef DDPRUN_LAUNCHER_AGENT_WORKER_POSTMORTEM_H_
#define DDPRUN_LAUNCHER_AGENT_WORKER_POSTMORTEM_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "rendezvous/core/types.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

// The first 64 KiB of a worker's TORCHELASTIC_ERROR_FILE, for launcher/text/error_file.h; "" when
// there is no such file or it cannot be read.
std::string ReadErrorFile(const std::string& path);

// Whether the kernel's out-of-memory killer ended a worker. Two witnesses:
//
//  - The kernel's log names the process. Its word is final where this user may read it, it has lost
//    no line since Begin(), and its pids are this process's (no PID namespace of a container).
//  - Else a count of kills: of the cgroup, or of the host where the cgroup has none. It tells that
//    a process was killed, not which one. The worker that ended within kRecent of it is blamed.
//
// Times come from the caller. Never waits: what it reads is the kernel's, and on no disk.
class OomProbe {
 public:
  // A process with much memory takes as long as this to go once it is killed.
  static constexpr std::chrono::seconds kRecent{30};

  struct Places {
    std::string cgroups = "/sys/fs/cgroup";  // where they are mounted
    std::string own_cgroups = "/proc/self/cgroup";
    std::string kernel_log = "/dev/kmsg";
    std::string vmstat = "/proc/vmstat";
    std::string pid_namespace = "/proc/self/ns/pid";
  };

  OomProbe();
  explicit OomProbe(const Places& places);

  // Workers start: what was killed before is not of theirs.
  void Begin();

  // Call it every few seconds while workers run: a kill is as old as the first look after it.
  void Look(TimePoint now);

  // For a worker that ended by SIGKILL which the agent did not send. Each counted kill answers for
  // one worker.
  bool WasKilled(pid_t pid, TimePoint now);

 private:
  // Remembers whom the new lines of the log name.
  void ReadLog();
  std::optional<std::int64_t> Count() const;

  std::string events_file_;  // of the cgroup or the host, with a line "oom_kill N"
  std::int64_t last_count_ = 0;
  std::int64_t unclaimed_ = 0;  // counted kills that have answered for no worker yet,
  TimePoint counted_at_{};      // and when the last one was seen

  UniqueFd kernel_log_;  // invalid: not readable
  bool log_has_our_pids_ = false;
  bool log_lost_lines_ = false;
  std::set<pid_t> named_by_log_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_WORKER_POSTMORTEM_H_
