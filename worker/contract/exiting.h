// Whether a process is exiting: none of its threads will run code of the program again, but its
// memory, sockets and locks may not be free yet.
//
// Standard library only, header only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_EXITING_H_
#define DDPRUN_WORKER_CONTRACT_EXITING_H_

#include <dirent.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "worker/contract/unique_fd.h"

namespace ddprun {

struct ThreadStat {
  unsigned int flags = 0;     // PF_ flags of the kernel
  std::uint64_t started = 0;  // clock ticks since boot
};

// `path`: a stat file of proc(5). nullopt: there is no such thread.
inline std::optional<ThreadStat> ReadThreadStat(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[2048];  // some 300 bytes; one read returns all of it
  const ssize_t size = file.valid() ? read(file.get(), text, sizeof(text)) : 0;
  if (size <= 0) return std::nullopt;
  const std::string stat(text, static_cast<std::size_t>(size));
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  ThreadStat result;
  std::string skipped;
  for (int field = 3; field < 9; ++field) fields >> skipped;
  fields >> result.flags;
  for (int field = 10; field < 22; ++field) fields >> skipped;
  fields >> result.started;
  return fields ? std::optional(result) : std::nullopt;
}

// When the process began, in clock ticks since boot; 0: there is no such process.
inline std::uint64_t StartOf(pid_t pid) {
  const auto stat = ReadThreadStat("/proc/" + std::to_string(pid) + "/stat");
  return stat ? stat->started : 0;
}

// True if all threads of the process have begun to exit. Also true for a zombie. False if there is
// no such process. Reads one small file of procfs for each thread.
inline bool AllThreadsExit(pid_t pid) {
  constexpr unsigned int kExiting = 0x4;  // PF_EXITING of Linux's include/linux/sched.h
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(opendir(folder.c_str()), closedir);
  if (threads == nullptr) return false;
  bool any = false;
  while (const dirent* const entry = readdir(threads.get())) {
    if (std::atoi(entry->d_name) == 0) continue;
    const auto stat = ReadThreadStat(folder + "/" + entry->d_name + "/stat");
    if (!stat) continue;  // this thread is gone
    if ((stat->flags & kExiting) == 0) return false;
    any = true;
  }
  return any;
}

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_EXITING_H_
