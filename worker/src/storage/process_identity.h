// Identifies this process in text that another process, later or elsewhere, can check.
#ifndef DDPRUN_WORKER_SRC_STORAGE_PROCESS_IDENTITY_H_
#define DDPRUN_WORKER_SRC_STORAGE_PROCESS_IDENTITY_H_

#include <sys/types.h>

#include <string>

namespace ddp::internal {

std::string HostName();

// The number of this process's PID namespace, for example "4026531836"; empty: not known.
// Containers of one host may share its name but not its pids.
std::string PidNamespace();

// The scope in which a pid means the same process until the next boot: boot id and PID namespace.
// Empty: not known.
std::string Machine();

// Start time of the process, in clock ticks since boot; empty: not known.
std::string StartTimeOf(pid_t pid);

// The process of this machine that started at `started` has ended, as far as known: another process
// may have its pid now, and /proc may hide processes of other users.
bool IsGone(pid_t pid, const std::string& started);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_PROCESS_IDENTITY_H_
