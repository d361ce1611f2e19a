// Which process this is, in words that another process, later or elsewhere, can check.
#ifndef DDPRUN_WORKER_SRC_STORAGE_PROCESS_IDENTITY_H_
#define DDPRUN_WORKER_SRC_STORAGE_PROCESS_IDENTITY_H_

#include <sys/types.h>

#include <string>

namespace ddp::internal {

std::string HostName();

// The number of this process's PID namespace, such as "4026531836"; empty where it is not known.
// Containers of one host may share its name, but not its pids.
std::string PidNamespace();

// Where a pid means the same process as here, until the machine is started again: boot id and PID
// namespace. Empty where it is not known.
std::string Machine();

// When the process started, in clock ticks since its machine did; empty where that is not known.
std::string StartTimeOf(pid_t pid);

// Whether the process of this machine that started then has ended, as far as can be told: another
// one may have its pid by now, and /proc may hide those of other users.
bool IsGone(pid_t pid, const std::string& started);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_PROCESS_IDENTITY_H_
