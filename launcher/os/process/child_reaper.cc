#include "launcher/os/process/child_reaper.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "launcher/os/check.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

// A killed process normally ends within microseconds. Others are polled at this interval.
constexpr int kPollMilliseconds = 2;

std::set<pid_t>& ExcludedChildren() {
  static auto* kept = new std::set<pid_t>;
  return *kept;
}

// nullopt: no such file. Files of /proc report no size.
std::optional<std::string> ReadProcFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t size = ::read(fd.get(), buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(size));
  }
}

// Calls `visit` with each name in a folder that is a number.
void ForEachNumber(const char* folder, const std::function<void(const char*)>& visit) {
  DIR* const directory = ::opendir(folder);
  if (directory == nullptr) return;
  while (const dirent* const entry = ::readdir(directory)) {
    if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') visit(entry->d_name);
  }
  ::closedir(directory);
}

// Kills a child. If it has left this process's session, all processes of its group are descendants
// of this process, so the whole group is killed at once: no member can fork in between.
void Kill(pid_t pid, const std::set<pid_t>& spared) {
  const pid_t group = ::getpgid(pid);
  if (group > 1 && ::getsid(pid) != ::getsid(0) && !spared.contains(group)) {
    ::kill(-group, SIGKILL);
  }
  ::kill(pid, SIGKILL);
}

// Reaps an ended child.
void Reap(pid_t pid) {
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | __WALL);
}

// Waits until `pid` has ended, or for a moment.
void AwaitEnd(pid_t pid) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{pidfd.get(), POLLIN, 0};  // with an invalid descriptor poll() only sleeps
  ::poll(&ended, 1, kPollMilliseconds);
}

}  // namespace

void BecomeSubreaper() {
  CheckSyscall(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)");
}

void ExcludeChild(pid_t pid) { ExcludedChildren().insert(pid); }

void IncludeChild(pid_t pid) { ExcludedChildren().erase(pid); }

std::vector<pid_t> ListChildren() {
  std::vector<pid_t> children;
  bool supported = true;
  // Each thread has its own list of children.
  ForEachNumber("/proc/self/task", [&](const char* thread) {
    const auto text = ReadProcFile(absl::StrCat("/proc/self/task/", thread, "/children"));
    if (!text) {
      supported = false;  // or the thread has just ended; the scan is right in both cases
      return;
    }
    std::istringstream numbers(*text);
    for (pid_t pid; numbers >> pid;) children.push_back(pid);
  });
  if (!supported) children = internal::ListChildrenByScan();
  std::erase_if(children, [](pid_t pid) { return ExcludedChildren().contains(pid); });
  return children;
}

void ReapEndedChildren(const std::set<pid_t>& spared) {
  for (const pid_t pid : ListChildren()) {
    if (!spared.contains(pid)) Reap(pid);
  }
}

std::vector<pid_t> EndChildren(const std::set<pid_t>& spared, std::chrono::microseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  for (bool last = false;; last = Clock::now() >= deadline) {
    std::vector<pid_t> left = ListChildren();
    std::erase_if(left, [&](pid_t pid) { return spared.contains(pid); });
    // A dying process leaves its children to this one, so only an empty list is the end.
    if (left.empty() || last) return left;
    for (const pid_t pid : left) Kill(pid, spared);
    AwaitEnd(left.front());
    for (const pid_t pid : left) Reap(pid);
  }
}

namespace internal {

std::vector<pid_t> ListChildrenByScan() {
  std::vector<pid_t> children;
  ForEachNumber("/proc", [&](const char* pid) {
    const auto stat = ReadProcFile(absl::StrCat("/proc/", pid, "/stat"));
    if (stat && ParentFromStat(*stat) == ::getpid()) children.push_back(std::atoi(pid));
  });
  return children;
}

pid_t ParentFromStat(const std::string& stat) {
  // "PID (name) STATE PARENT ...": the name ends at the last parenthesis.
  const std::size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos || stat.size() < name_end + 5) return -1;
  return std::atoi(stat.c_str() + name_end + 4);
}

}  // namespace internal
}  // namespace ddprun
