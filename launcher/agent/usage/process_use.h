// What one process has used, as /proc says. Reads small files of procfs, which never wait for a
// disk. Any thread.
#ifndef DDPRUN_LAUNCHER_AGENT_USAGE_PROCESS_USE_H_
#define DDPRUN_LAUNCHER_AGENT_USAGE_PROCESS_USE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "launcher/os/process/process_id.h"

namespace ddprun {

// The first three only grow in the life of a process.
struct Use {
  std::chrono::milliseconds cpu{};  // user and system, by all threads
  std::int64_t read_bytes = 0;      // by read() and the like; mapped files are not in it
  std::int64_t written_bytes = 0;
  std::int64_t resident_bytes = 0;  // now; pages that processes share count for each

  friend bool operator==(const Use&, const Use&) = default;
};
Use operator+(const Use& a, const Use& b);

struct ProcessUse {
  ProcessId process;
  Use use;
};

// nullopt: there is no such process. I/O is 0 where another user's process does not show it.
std::optional<ProcessUse> ReadProcessUse(pid_t pid);

// Of the texts of stat and io; nullopt where the first is none. Pure.
std::optional<ProcessUse> ParseProcessUse(pid_t pid, std::string_view stat, std::string_view io,
                                          std::int64_t ticks_per_second, std::int64_t page_bytes);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_USAGE_PROCESS_USE_H_
