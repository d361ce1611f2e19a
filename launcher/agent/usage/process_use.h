// The CPU time, I/O and memory of one process, from /proc. Reads small files of procfs, which never
// wait for a disk. Any thread.
#ifndef DDPRUN_LAUNCHER_AGENT_USAGE_PROCESS_USE_H_
#define DDPRUN_LAUNCHER_AGENT_USAGE_PROCESS_USE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "launcher/os/process/process_id.h"

namespace ddprun {

// The first three never decrease while the process lives.
struct Use {
  std::chrono::milliseconds cpu{};  // user and system, by all threads
  std::int64_t read_bytes = 0;      // by read() and similar calls; without mapped files
  std::int64_t written_bytes = 0;
  std::int64_t resident_bytes = 0;  // now; shared pages count for each process

  friend bool operator==(const Use&, const Use&) = default;
};
Use operator+(const Use& a, const Use& b);

struct ProcessUse {
  ProcessId process;
  Use use;
};

// nullopt: no such process. I/O is 0 for a process whose I/O this user may not read.
std::optional<ProcessUse> ReadProcessUse(pid_t pid);

// Parses the texts of stat and io; nullopt: `stat` is malformed. Pure.
std::optional<ProcessUse> ParseProcessUse(pid_t pid, std::string_view stat, std::string_view io,
                                          std::int64_t ticks_per_second, std::int64_t page_bytes);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_USAGE_PROCESS_USE_H_
