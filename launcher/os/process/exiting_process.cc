#include "launcher/os/process/exiting_process.h"

#include <dirent.h>
#include <sys/wait.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "launcher/os/process/process_id.h"

namespace ddprun {
namespace {

constexpr unsigned int kExiting = 0x4;  // PF_EXITING of Linux's include/linux/sched.h

bool AllThreadsExit(pid_t pid) {
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(
      ::opendir(absl::StrCat("/proc/", pid, "/task").c_str()), ::closedir);
  if (threads == nullptr) return false;
  while (const dirent* const entry = ::readdir(threads.get())) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread == 0) continue;
    const auto stat = ReadThreadStat(pid, thread);  // nullopt: this thread is gone
    if (stat && (stat->flags & kExiting) == 0) return false;
  }
  return true;
}

}  // namespace

std::optional<ExitStatus> StatusOfExiting(pid_t pid) {
  if (!AllThreadsExit(pid)) return std::nullopt;
  const auto stat = ReadProcessStat(pid);
  if (!stat || (stat->flags & kExiting) == 0) return std::nullopt;
  ExitStatus status;
  if (WIFSIGNALED(stat->wait_status)) {
    status.signal = WTERMSIG(stat->wait_status);
    status.core_dumped = WCOREDUMP(stat->wait_status);
  } else if (WIFEXITED(stat->wait_status)) {
    status.code = WEXITSTATUS(stat->wait_status);
  }
  return status.ok() ? std::nullopt : std::optional(status);
}

}  // namespace ddprun
