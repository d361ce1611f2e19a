#include "launcher/os/process/process_id.h"

#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace ddprun {

ProcessId ProcessIdOf(pid_t pid) {
  const std::optional<ProcessStat> stat = ReadProcessStat(pid);
  return {pid, stat ? stat->started : 0};
}

bool IsAlive(const ProcessId& process) {
  const std::optional<ProcessStat> stat = ReadProcessStat(process.pid);
  return stat && process.started != 0 && stat->started == process.started && stat->state != 'Z' &&
         stat->state != 'X';
}

std::optional<ExitStatus> StatusOfExiting(pid_t pid) {
  if (!IsExiting(pid)) return std::nullopt;
  const auto stat = ReadProcessStat(pid);
  if (!stat) return std::nullopt;
  ExitStatus status;
  if (WIFSIGNALED(stat->wait_status)) {
    status.signal = WTERMSIG(stat->wait_status);
    status.core_dumped = WCOREDUMP(stat->wait_status);
  } else if (WIFEXITED(stat->wait_status)) {
    status.code = WEXITSTATUS(stat->wait_status);
  }
  return status.ok() ? std::nullopt : std::optional(status);
}

bool HasChildren(pid_t pid) {
  std::error_code error;
  for (std::filesystem::directory_iterator thread(absl::StrCat("/proc/", pid, "/task"), error), end;
       !error && thread != end; thread.increment(error)) {
    std::ifstream children(thread->path() / "children");
    if (pid_t child = 0; !children || children >> child) return true;
  }
  return static_cast<bool>(error);
}

}  // namespace ddprun
