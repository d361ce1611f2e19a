// A process that is exiting: its memory, sockets and GPUs are not free yet, but none of its threads
// will run code of the program again.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_EXITING_PROCESS_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_EXITING_PROCESS_H_

#include <sys/types.h>

#include <optional>

#include "rendezvous/core/exit_status.h"

namespace ddprun {

// The status with which `pid` will end, if all its threads are exiting. nullopt: a thread still
// runs, or the status is not known, or it is 0. Reads a few small files of procfs for each thread;
// call it only when the process is expected to die. The pid must not have been reaped.
std::optional<ExitStatus> StatusOfExiting(pid_t pid);

// True if the process has children, or if the kernel does not say. A zombie counts.
bool HasChildren(pid_t pid);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_EXITING_PROCESS_H_
