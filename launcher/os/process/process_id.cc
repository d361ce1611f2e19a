#include "launcher/os/process/process_id.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "worker/contract/exiting.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

// Fields of proc(5), counted from the field after the name.
constexpr std::size_t kState = 0;
constexpr std::size_t kParent = 1;
constexpr std::size_t kStarted = 19;
constexpr std::size_t kWaitStatus = 49;

}  // namespace

std::optional<ProcessStat> ParseProcessStat(std::string_view text) {
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  const std::string_view rest = text.substr(close + 1);
  const std::vector<absl::string_view> fields = absl::StrSplit(
      absl::string_view(rest.data(), rest.size()), absl::ByAnyChar(" \n"), absl::SkipWhitespace());
  ProcessStat stat;
  if (fields.size() <= kStarted || !absl::SimpleAtoi(fields[kParent], &stat.parent) ||
      !absl::SimpleAtoi(fields[kStarted], &stat.started)) {
    return std::nullopt;
  }
  stat.name = std::string(text.substr(open + 1, close - open - 1));
  stat.state = fields[kState].front();
  if (fields.size() > kWaitStatus) (void)absl::SimpleAtoi(fields[kWaitStatus], &stat.wait_status);
  return stat;
}

std::optional<ProcessStat> ReadProcessStat(pid_t pid) {
  const UniqueFd file(::open(absl::StrCat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  char text[2048];  // some 300 bytes; one read returns all of it
  const ssize_t size = ::read(file.get(), text, sizeof(text));
  if (size <= 0) return std::nullopt;
  return ParseProcessStat(std::string_view(text, static_cast<std::size_t>(size)));
}

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
  if (!AllThreadsExit(pid)) return std::nullopt;
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
