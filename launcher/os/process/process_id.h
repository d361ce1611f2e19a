// Identifies a process, because the kernel reuses pids, and says how an exiting process will end.
// Reads files of /proc that never wait for a disk. Any thread.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_ID_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_ID_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "rendezvous/core/exit_status.h"
#include "worker/contract/process_stat.h"

namespace ddprun {

// One process, distinct from later ones with the same pid.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t started = 0;  // clock ticks since boot; 0: the process was already gone

  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

// The process that has this pid now.
ProcessId ProcessIdOf(pid_t pid);
// True if the process exists and has not ended. False for a zombie.
bool IsAlive(const ProcessId& process);

// The status with which `pid` will end, if the process is exiting (process_stat.h). nullopt: the
// process is not exiting, or the status is 0 or not known. Reads a small file for each thread, so
// call it only when the process is expected to die. The process must not have been reaped.
std::optional<ExitStatus> StatusOfExiting(pid_t pid);

// True if the process has children, or if the kernel does not say. A zombie counts.
bool HasChildren(pid_t pid);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_ID_H_
