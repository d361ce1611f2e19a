// What can be learnt about a worker's death from outside of it, beside its exit status.
//
// Used from the agent's thread when a worker has ended; reads small files and never waits.
#ifndef DDPRUN_LAUNCHER_AGENT_WORKER_POSTMORTEM_H_
#define DDPRUN_LAUNCHER_AGENT_WORKER_POSTMORTEM_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "worker/contract/unique_fd.h"

namespace ddprun {

// The first 64 KiB of a worker's TORCHELASTIC_ERROR_FILE, for launcher/text/error_file.h; "" when
// there is no such file or it cannot be read.
std::string ReadErrorFile(const std::string& path);

// Whether the kernel's out-of-memory killer ended a worker. The cgroup's count of such kills tells
// that there was one, the kernel's log which process it was, where this user may read it. Where
// neither can be read the host's count (/proc/vmstat) is taken.
class OomProbe {
 public:
  // Finds this process's cgroup and remembers its count; `root` is where cgroups are mounted.
  explicit OomProbe(const std::string& root = "/sys/fs/cgroup",
                    const std::string& own_cgroups = "/proc/self/cgroup",
                    const std::string& kernel_log = "/dev/kmsg",
                    const std::string& vmstat = "/proc/vmstat");

  // Workers start: what was killed before is not of theirs.
  void Begin() { last_count_ = Count().value_or(last_count_); }

  // For a worker that ended by SIGKILL which the agent did not send. With a readable kernel log the
  // answer is about this pid; else any kill that was counted since the last call counts.
  bool WasKilled(pid_t pid);

 private:
  std::optional<std::int64_t> Count() const;

  std::string events_file_;  // of the cgroup or the host, with a line "oom_kill N"; empty: none
  std::int64_t last_count_ = 0;
  UniqueFd kernel_log_;  // invalid: not readable
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_WORKER_POSTMORTEM_H_
