// Identifies a process, because the kernel reuses pids, and says whether it is exiting
// (worker/contract/exiting.h). Reads files of /proc that never wait for a disk. Any thread.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_ID_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_ID_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/core/exit_status.h"

namespace ddprun {

// One process, distinct from later ones with the same pid.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t started = 0;  // clock ticks since boot; 0: the process was already gone

  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

struct ProcessStat {
  std::string name;  // of the program, at most 15 bytes, any characters
  char state = '?';  // R, S, D, T, Z, ... of proc(5)
  pid_t parent = 0;
  std::uint64_t started = 0;  // as in ProcessId
  int wait_status = 0;        // as of waitpid(2), once it is exiting; 0: not known
};

// nullopt: no such process.
std::optional<ProcessStat> ReadProcessStat(pid_t pid);
// Parses the text of a stat file; nullopt: malformed. Pure.
std::optional<ProcessStat> ParseProcessStat(std::string_view text);

// The process that has this pid now.
ProcessId ProcessIdOf(pid_t pid);
// True if the process exists and has not ended. False for a zombie.
bool IsAlive(const ProcessId& process);

// The status with which `pid` will end, if all its threads are exiting. nullopt: a thread still
// runs, or the status is not known, or it is 0. Reads a few small files of procfs for each thread;
// call it only when the process is expected to die. The pid must not have been reaped.
std::optional<ExitStatus> StatusOfExiting(pid_t pid);

// True if the process has children, or if the kernel does not say. A zombie counts.
bool HasChildren(pid_t pid);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_ID_H_
