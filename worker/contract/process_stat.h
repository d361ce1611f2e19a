// What the kernel says of a process and its threads in /proc. A read of these files never waits for
// a disk.
//
// A process is *exiting* if all its threads have begun to exit: none of them will run code of the
// program again, but its memory, sockets and locks may not be free yet.
//
// Standard library only, header only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_PROCESS_STAT_H_
#define DDPRUN_WORKER_CONTRACT_PROCESS_STAT_H_

#include <dirent.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "worker/contract/unique_fd.h"

namespace ddprun {

// Of a process, or of one thread.
struct ProcessStat {
  std::string name;  // at most 15 bytes, any characters
  char state = '?';  // R, S, D, T, Z, ... of proc(5)
  pid_t parent = 0;
  unsigned int flags = 0;     // PF_ flags of the kernel
  std::uint64_t started = 0;  // clock ticks since boot
  int wait_status = 0;        // as of waitpid(2), once it is exiting; 0: not known
};

// Parses the text of a stat file of proc(5); nullopt: malformed. Pure.
inline std::optional<ProcessStat> ParseProcessStat(std::string_view text) {
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  ProcessStat stat;
  stat.name = std::string(text.substr(open + 1, close - open - 1));
  std::istringstream fields{std::string(text.substr(close + 1))};
  auto skip_to = [&fields, next = 3](int field) mutable {
    std::string skipped;
    for (; next < field; ++next) fields >> skipped;
    ++next;
  };
  skip_to(3);
  fields >> stat.state;
  skip_to(4);
  fields >> stat.parent;
  skip_to(9);
  fields >> stat.flags;
  skip_to(22);
  fields >> stat.started;
  if (!fields) return std::nullopt;
  skip_to(52);
  if (!(fields >> stat.wait_status)) stat.wait_status = 0;
  return stat;
}

// nullopt: no such process or thread (errno ENOENT or ESRCH), or the file cannot be read.
inline std::optional<ProcessStat> ReadStatFile(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  char text[2048];  // some 300 bytes; one read returns all of it
  const ssize_t size = read(file.get(), text, sizeof(text));
  if (size <= 0) return std::nullopt;
  return ParseProcessStat(std::string_view(text, static_cast<std::size_t>(size)));
}

inline std::optional<ProcessStat> ReadProcessStat(pid_t pid) {
  return ReadStatFile("/proc/" + std::to_string(pid) + "/stat");
}

// Whether the process is exiting. Also true for a zombie. False if there is no such process, or if
// one of its threads cannot be looked at. Reads one small file for each thread.
inline bool IsExiting(pid_t pid) {
  constexpr unsigned int kExiting = 0x4;  // PF_EXITING of Linux's include/linux/sched.h
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(opendir(folder.c_str()), closedir);
  if (threads == nullptr) return false;
  bool any = false;
  while (const dirent* const entry = readdir(threads.get())) {
    if (std::atoi(entry->d_name) == 0) continue;
    errno = 0;
    const auto stat = ReadStatFile(folder + "/" + entry->d_name + "/stat");
    if (!stat && errno != ENOENT && errno != ESRCH) return false;  // it cannot be read
    if (!stat) continue;                                           // this thread is gone
    if ((stat->flags & kExiting) == 0) return false;
    any = true;
  }
  return any;
}

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_PROCESS_STAT_H_
