// Finds out more about a worker's death than its exit status.
//
// ReadErrorFile() may block on the disk, so the agent calls it on its disk thread. OomProbe belongs
// to the loop's thread and never waits: it reads only files of the kernel, none on a disk.
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

// The first 64 KiB of a worker's TORCHELASTIC_ERROR_FILE, for launcher/text/error_file.h; "": no
// such file, or it cannot be read.
std::string ReadErrorFile(const std::string& path);

// Tells whether the kernel's out-of-memory killer ended a worker. Two sources:
//
//  - The kernel's log names the process. It is used if this process is in no PID namespace of a
//    container, if this user is allowed to read the log, and if the log has lost no line since
//    Begin().
//  - Otherwise a count of kills is used: of the cgroup, or of the host if the cgroup has no
//    count. It shows that a process was killed, but not which one. So the kill is attributed to a
//    worker that ended within kRecent.
//
// The caller passes the time.
class OomProbe {
 public:
  // A process with much memory may take this long to end after its SIGKILL.
  static constexpr std::chrono::seconds kRecent{30};

  struct Places {
    std::string cgroups = "/sys/fs/cgroup";  // mount point
    std::string own_cgroups = "/proc/self/cgroup";
    std::string kernel_log = "/dev/kmsg";
    std::string vmstat = "/proc/vmstat";
    std::string pid_namespace = "/proc/self/ns/pid";
  };

  OomProbe();
  explicit OomProbe(const Places& places);

  // Call it when workers start. Earlier kills do not count for them.
  void Begin();

  // Call it every few seconds while workers run: a kill gets the time of the first Look() after it.
  void Look(TimePoint now);

  // For a worker that ended by a SIGKILL that the agent did not send. Each counted kill is
  // attributed to one worker only.
  bool WasKilled(pid_t pid, TimePoint now);

 private:
  // Remembers the pids that new lines of the log name.
  void ReadLog();
  std::optional<std::int64_t> Count() const;

  std::string events_file_;  // of the cgroup or the host; has a line "oom_kill N"
  std::int64_t last_count_ = 0;
  std::int64_t unclaimed_ = 0;  // counted kills not yet attributed to a worker,
  TimePoint counted_at_{};      // and the time when the last was seen

  UniqueFd kernel_log_;  // invalid: not readable, or its pids are of another PID namespace
  bool log_lost_lines_ = false;
  std::set<pid_t> named_by_log_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_WORKER_POSTMORTEM_H_
