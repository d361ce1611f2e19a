// Describes a process, so that a later process of this machine can check whether it has ended.
#ifndef DDPRUN_WORKER_SRC_STORAGE_PROCESS_IDENTITY_H_
#define DDPRUN_WORKER_SRC_STORAGE_PROCESS_IDENTITY_H_

#include <sys/types.h>

#include <string>

namespace ddp::internal {

std::string HostName();

// The number of this process's PID namespace, for example "4026531836". Empty: unknown. Containers
// of one host may have the same host name, but they do not share pids.
std::string PidNamespace();

// The boot id and the PID namespace of this process. A pid means the same process only as long as
// both are the same. Empty: unknown.
std::string Machine();

// When the process started, in clock ticks since boot. Empty: unknown.
std::string StartTimeOf(pid_t pid);

// True if the process of this machine that started at `started` has ended, as far as known. Another
// process may have its pid now, and /proc may hide processes of other users.
bool IsGone(pid_t pid, const std::string& started);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_PROCESS_IDENTITY_H_
