// Which process a number means: the kernel gives the number of a process that is gone to another
// one. Reads /proc/PID/stat, which never waits for a disk. Any thread.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_ID_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_ID_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// A process, and no later one with the same number.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t started = 0;  // clock ticks since the machine started; 0: it was gone already

  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

struct ProcessStat {
  std::string name;  // of its program, 15 bytes; any character may be in it
  char state = '?';  // R, S, D, T, Z, ... of proc(5)
  pid_t parent = 0;
  std::uint64_t started = 0;  // as ProcessId has it
};

// nullopt: there is no such process.
std::optional<ProcessStat> ReadProcessStat(pid_t pid);
// Of the text of a stat file; nullopt where it is none. Pure.
std::optional<ProcessStat> ParseProcessStat(std::string_view text);

// The process that has this number now.
ProcessId ProcessIdOf(pid_t pid);
// It is there, and has not ended. A zombie has.
bool IsAlive(const ProcessId& process);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_ID_H_
